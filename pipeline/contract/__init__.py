"""The text that teaches a dialect and the tools, and the history told in that dialect (SPEC section 4)."""
