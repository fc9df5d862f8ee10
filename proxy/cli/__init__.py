"""One file a command; each holds a click command named `command`."""
