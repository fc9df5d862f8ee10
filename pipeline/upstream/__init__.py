"""Speaking to an upstream: a turn written as its request, its answer's bytes read into events, its failures named.

One file each way and protocol (Chat Completions, Messages); `frames` finds the JSON in whatever shape it comes, `fold` bends messages to
what an upstream takes, `native_calls` puts calls together, `failures` says what an error means.
"""
