"""Notes in; log events, counters and the canonical line out. One table, no content, no keys."""
