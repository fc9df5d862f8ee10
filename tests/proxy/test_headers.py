from __future__ import annotations

import pytest

from pipeline.verdicts import Api
from proxy.headers import passed_on, processing_ms, protocol_headers, request_id, trace


@pytest.mark.parametrize("given", ["abc", "A.b_c-9", "x" * 64])
def test_a_plain_request_id_is_kept(given):
    assert request_id(given) == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "a b", "a\n", "é", 'a"b', "a/b"])
def test_any_other_is_replaced(given):
    made = request_id(given)
    assert made.startswith("req_")
    assert made != request_id(given)
    assert request_id(made) == made


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_trace_goes_on_with_a_parent_of_its_own():
    found = trace(PARENT)
    version, trace_id, parent, flags = found.child().split("-")
    assert (version, trace_id, flags) == ("00", "0af7651916cd43dd8448eb211c80319c", "01")
    assert parent != "b7ad6b7169203331"
    assert len(parent) == 16
    assert found.child() != found.child()


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        PARENT.upper(),
        PARENT + "-x",
        "01" + PARENT[2:],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        PARENT + "\n",
    ],
)
def test_a_malformed_trace_is_replaced(given):
    found = trace(given)
    assert found.trace_id != "0af7651916cd43dd8448eb211c80319c"
    assert trace(found.child()).trace_id == found.trace_id


def test_a_turn_gets_the_headers_of_its_protocol_and_no_others():
    headers = {"anthropic-version": "2023-06-01", "authorization": "Bearer s", "cookie": "c", "x-forwarded-for": "1.2.3.4"}
    assert protocol_headers(headers) == {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("beta", ["\udcff", "é", "a\r\nb", "a\x00"])
def test_a_header_that_could_not_be_sent_on_is_left_out(beta):
    assert protocol_headers({"anthropic-version": "2023-06-01", "anthropic-beta": beta}) == {"anthropic-version": "2023-06-01"}


def test_rate_limits_pass_always_and_retry_after_only_with_an_error():
    upstream = {
        "x-ratelimit-remaining-requests": "3",
        "anthropic-ratelimit-unified-status": "rejected",
        "retry-after": "7",
        "x-should-retry": "false",
        "set-cookie": "a=b",
        "content-encoding": "gzip",
        "x-ratelimit-odd": "a\r\nb: c",
    }
    limits = [("x-ratelimit-remaining-requests", "3"), ("anthropic-ratelimit-unified-status", "rejected")]
    assert passed_on(upstream, 200) == limits
    assert passed_on(upstream, 429) == [*limits, ("retry-after", "7"), ("x-should-retry", "false")]


def test_the_time_an_answer_took_is_told_where_the_api_does():
    assert processing_ms(Api.OPENAI_CHAT, 0.0416) == (("openai-processing-ms", "42"),)
    assert processing_ms(Api.OPENAI_RESPONSES, -1.0) == (("openai-processing-ms", "0"),)
    assert processing_ms(Api.ANTHROPIC_MESSAGES, 1.0) == ()
