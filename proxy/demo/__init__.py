"""The demo: a text-only model behind a real port, the proxy in front of it, real agents through both, every step shown."""
