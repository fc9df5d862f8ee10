"""OpenAI Responses: requests read, answers written."""
