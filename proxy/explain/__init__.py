"""Log lines in; what each turn's fault was, and what to try next, out. `diagnosis` decides and is pure, the rest reads and shows."""
