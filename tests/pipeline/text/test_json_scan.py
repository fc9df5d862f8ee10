"""The end of a JSON value, and the repairs it needs, found in pieces (S7)."""

from __future__ import annotations

import json

import pytest

from pipeline.text.json_scan import JsonScanner, strict_content
from pipeline.verdicts import Repair


def scan(text, *, strict=False, cuts=None):
    scanner = JsonScanner(strict=strict)
    at = 0
    for piece in [text] if cuts is None else [text[start : start + cuts] for start in range(0, len(text), cuts)]:
        taken = scanner.feed(piece)
        at += taken
        if scanner.done or scanner.fault or scanner.stopped:
            break
        assert taken == len(piece) or not strict
    return scanner, at


VALUES = [
    {"a": 1},
    {"a": {"b": [1, 2.5, -3e7, True, None, "x"]}, "c": []},
    [{"a": 1}, {"b": "]}"}],
    {"quotes": 'say "hi", then: "x"}', "back": "C:\\new\\", "fence": "```\n```json action\n", "": ""},
    {"uni": "漢字 🙂 \u2028 é", "ctl": "\u0001\n\t", "surrogates": "\U0001f600"},
    {"big": 123456789012345678901234567890},
    {},
    [],
]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
def test_strict_json_ends_where_it_ends_and_needs_no_repair(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    for cuts in (None, 1, 2, 3, 7):
        for strict in (False, True):
            scanner, at = scan(text + "\n``` rest", strict=strict, cuts=cuts)
            assert scanner.done
            assert not scanner.repairs
            assert at == scanner.consumed == len(text)
            if strict:
                assert json.loads("".join(scanner.out)) == value


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": "x\ny\tz\x01"}', {"a": "x\ny\tz\x01"}, {Repair.CONTROL_CHARACTERS}),
        ('{“a”: “x”, ”b“: “y"”}', {"a": "x", "b": 'y"'}, {Repair.SMART_QUOTES, Repair.INNER_QUOTES}),
        ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}, {Repair.TRAILING_COMMA}),
        ('{"a": True, "b": [False, None], "c": "None"}', {"a": True, "b": [False, None], "c": "None"}, {Repair.PYTHON_LITERALS}),
        (r'{"a": "C:\Users\q\x.txt \u12 \\ \n"}', {"a": "C:\\Users\\q\\x.txt \\u12 \\ \n"}, {Repair.INVALID_ESCAPE}),
        ('{"a": "say "hi" now", "b": 1}', {"a": 'say "hi" now', "b": 1}, {Repair.INNER_QUOTES}),
        ('{"a": "He said "hi", and left"}', {"a": 'He said "hi", and left'}, {Repair.INNER_QUOTES}),
        ('{"a": "5" pipe"}', {"a": '5" pipe'}, {Repair.INNER_QUOTES}),
        ('{"a": ["b", {"c": 1]}', {"a": ["b", {"c": 1}]}, {Repair.MISSING_BRACKETS}),
        ('{"a": "\\ud83d x"}', {"a": "\ufffd x"}, {Repair.LONE_SURROGATE}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}, set()),
    ],
)
def test_repairs_by_name(text, value, repairs):
    for cuts in (None, 1, 2, 3, 7):
        scanner, at = scan(text, strict=True, cuts=cuts)
        assert scanner.done, scanner.fault
        assert at == len(text)
        assert json.loads("".join(scanner.out)) == value
        assert scanner.repairs == repairs


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('{"a": }', 6),
        ('{"a" 1}', 5),
        ("{'a': 1}", 1),
        ("{a: 1}", 1),
        ("{...}", 1),
        ('{"a": 1 "b": 2}', 8),
        ('{"a": 01}', 8),
        ('{"a": NaN}', 9),
        ('{"a": tru}', 9),
        ('{"a": +1}', 6),
        ('{"a": "x" // c\n, "b": 1}', 20),
        ('{"a": "print("x", "y")"}', 18),
        ('{"a"b": 1}', 4),
        ('{,"a": 1}', 1),
        ('{"a": 1]', 7),
        ("[1}", 2),
        ('{"a": "b": 1}', 9),
    ],
)
def test_what_no_narrow_repair_explains_is_refused_at_once(text, at):
    for cuts in (None, 1, 3):
        scanner, taken = scan(text + " and more", cuts=cuts)
        assert scanner.fault
        assert not scanner.done
        assert taken == at


def test_a_fence_stops_the_scan_outside_strings_only():
    scanner, at = scan('{"a": "```", "b": {"c": 1\n```')
    assert scanner.stopped
    assert at == 26
    assert scanner.value_complete
    assert not scan('{"a":\n```')[0].value_complete
    assert not scan('{"a": "```')[0].stopped


def test_an_unterminated_string_is_never_closed():
    scanner, _ = scan('{"a": "half of a sent')
    assert not scanner.done
    assert not scanner.value_complete


def test_what_is_listened_to():
    heard = []

    class Ear:
        def key(self, depth, text):
            heard.append(("key", depth, text))

        def begin(self, depth, char):
            heard.append(("begin", depth, char))

        def piece(self, depth, text):
            heard.append(("piece", depth, text))

        def end(self, depth):
            heard.append(("end", depth))

    scanner = JsonScanner(listener=Ear(), most=1)
    scanner.feed('{"a": {"deep": 1}, "b": "x')
    scanner.feed('y", "c": 1}')
    assert heard == [
        *(("key", 1, "a"), ("begin", 1, "{"), ("end", 1)),
        *(("key", 1, "b"), ("begin", 1, '"'), ("piece", 1, "x"), ("piece", 1, "y"), ("end", 1)),
        *(("key", 1, "c"), ("begin", 1, "-"), ("end", 1)),
    ]


def test_strict_content_touches_only_what_is_no_json():
    repairs: set[Repair] = set()
    clean = 'a \\" \\u00e9 é 漢'
    assert strict_content(clean, repairs) is clean
    assert strict_content(r"a \\ b", repairs) == r"a \\ b"
    assert not repairs
    assert strict_content("\x00\\q", repairs) == "\\u0000\\\\q"
