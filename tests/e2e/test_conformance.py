"""Line A of what must be shown: the official SDKs, strict where they can be, find nothing wrong at a real Toolgraft over a text-only upstream.

The checks are functions of `tests/conformance/check_sdks.py`, so that the same ones run under old SDKs (`tests/e2e/test_old_sdks.py`).
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.conformance.check_sdks import CHECKS, Bench
from tests.support.running import toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream, Seen
from tests.support.text_model import TextModel

N_REFUSED = {"error": {"message": "n is not supported", "type": "invalid_request_error", "param": "n", "code": "unsupported_value"}}


def plain_chat_api():
    """The text model, with the manners of a small chat API: one choice only."""
    model = TextModel()
    return lambda seen: Script(status=400, body=N_REFUSED) if _several(seen) else model(seen)


def _several(seen: Seen) -> bool:
    return seen.json.get("n", 1) > 1


ROUTES = {
    "json_action": 'contract = "json_action"',
    "dsml": 'contract = "dsml"',
    "json_action-live": 'contract = "json_action"\nstream_arguments = true',
    "dsml-live": 'contract = "dsml"\nstream_arguments = true',
}


@pytest.fixture(scope="module", params=list(ROUTES))
def bench(request, tmp_path_factory):
    with ExitStack() as stack:
        upstream = stack.enter_context(ScriptedUpstream(plain_chat_api()).in_thread())
        folder = tmp_path_factory.mktemp("conformance")
        running = stack.enter_context(toolgraft(folder, upstream.url, f"[defaults]\n{ROUTES[request.param]}\n"))
        made = Bench(running.url)
        stack.callback(made.close)
        yield made


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_sdk(bench, check):
    check(bench)
