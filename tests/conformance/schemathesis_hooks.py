"""Hooks for `fuzz_openapi.py`, read by schemathesis in its own environment.

Most generated Responses requests ask for something stored, which a stateless server refuses at the first look; nine of ten lose those
fields here, so that what stands behind that look is fuzzed too. Likewise most are given a model and some input, which only the meaning demands.
"""

import json
import zlib

import schemathesis

STORED = ("prompt", "conversation", "previous_response_id", "background")


@schemathesis.hook
def before_call(context, case, kwargs):  # the signature is schemathesis's
    """Change the request's JSON body, or leave it."""
    body = case.body
    if not isinstance(body, dict) or zlib.crc32(json.dumps(body, sort_keys=True, default=str).encode()) % 10 == 0:
        return
    kept = {key: value for key, value in body.items() if key not in STORED}
    kept["model"] = kept.get("model") or "demo"
    if "messages" not in kept:
        kept["input"] = kept.get("input") or "hi"
    case.body = kept
