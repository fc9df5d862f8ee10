"""The conversation's calls and results: which belongs to which, and how a broken one is told in plain words (SPEC section 3)."""
