"""Asks a model a small set of tool tasks under different settings, and says which settings work best for it."""
