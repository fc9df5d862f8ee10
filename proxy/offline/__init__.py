"""The sieve offline: lines in, lines out, and a view for people (`toolgraft parse`)."""
