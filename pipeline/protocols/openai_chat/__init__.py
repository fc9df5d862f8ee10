"""OpenAI Chat Completions: requests read, answers written."""
