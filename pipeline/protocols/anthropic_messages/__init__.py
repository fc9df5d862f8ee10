"""Anthropic Messages: requests read, answers written."""
