"""The bytes of a body (X26, X36)."""

import pytest

from pipeline.protocols.json_body import BodyLimits, parse_body, too_deep
from pipeline.stage import StageError
from pipeline.verdicts import ErrorKind


def nested(levels):
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"{}", {}),
        (b' {"a":1} ', {"a": 1}),
        (b"\xef\xbb\xbf{}", {}),
        (b'{"a":12345678901234567890123}', {"a": 12345678901234567890123}),
        (b'{"a":"\\ud83d x"}', {"a": "\ufffd x"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ('{"a":"\ud83d"}'.encode("utf-8", "surrogatepass"), {"a": "\ufffd"}),
        (b'{"\\udc00":[{"b":"\\udc00"}]}', {"\ufffd": [{"b": "\ufffd"}]}),
    ],
)
def test_a_json_object_comes_out_well_formed(raw, value):
    assert parse_body(raw) == value


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'"x"', b"7", b"{nope", b'{"a":NaN}', b'{"a":"\xff"}', b"{} {}", b"{'a':1}", b'{"a":' * 5000, b"\x00"],
)
def test_anything_else_is_an_invalid_request(raw):
    with pytest.raises(StageError) as caught:
        parse_body(raw)
    assert caught.value.failed.kind is ErrorKind.INVALID_REQUEST


@pytest.mark.parametrize("filling", [b"", b'"\\ud800"', b"12345678901234567890"])
@pytest.mark.parametrize("levels", [129, 900, 3000, 100_000])
def test_what_nests_too_deep_is_refused_by_whatever_parser(levels, filling):
    raw = b'{"a":' + b"[" * levels + filling + b"]" * levels + b"}"
    with pytest.raises(StageError) as caught:
        parse_body(raw)
    assert caught.value.failed.kind is ErrorKind.INVALID_REQUEST


def test_limits_are_exact():
    assert parse_body(nested(5), BodyLimits(max_depth=5))
    with pytest.raises(StageError):
        parse_body(nested(6), BodyLimits(max_depth=5))
    assert parse_body(b'{"a":1}', BodyLimits(max_bytes=7))
    with pytest.raises(StageError) as caught:
        parse_body(b'{"a":1} ', BodyLimits(max_bytes=7))
    assert caught.value.failed.kind is ErrorKind.TOO_LARGE


@pytest.mark.parametrize(
    ("value", "depth"),
    [(7, 0), ("x", 0), ([], 1), ({}, 1), ([[], [[]]], 3), ({"a": {"b": [1]}, "c": 2}, 3)],
)
def test_depth_counts_arrays_and_objects(value, depth):
    assert not too_deep(value, depth)
    assert depth == 0 or too_deep(value, depth - 1)
