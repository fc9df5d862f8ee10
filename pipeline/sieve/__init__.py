"""The streaming parser that takes calls out of an answer's text: `sieve.py` finds them, `release.py` says what goes out when, `reading.py` reads whole texts."""
