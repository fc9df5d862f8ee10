"""Laws of the refusal classifier over arbitrary texts made of its own words: cut invariance, no exception, linear time, bounded hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.refusals.classifier import Classifier
from pipeline.testing.growth import growth
from pipeline.verdicts import Hold
from tests.support.refusal_cases import LIMIT, cases, context_of, offered, scanned

CLASSIFIER = Classifier()
PIECES = [
    *[
        "I ",
        "don't ",
        "don’t ",
        "have ",
        "access ",
        "to ",
        "any ",
        "tools",
        "cannot ",
        "run ",
        "code",
        "files ",
        "your ",
        "sorry",
        "but ",
        "if ",
    ],
    *[
        "let me ",
        "use ",
        "read_file",
        "as an AI ",
        "here is the ",
        "please ",
        "paste ",
        "the contents ",
        "我",
        "没有",
        "无法",
        "工具",
        "访问",
        "文件",
    ],
    *[
        "ツール",
        "できません",
        "no ",
        "tengo ",
        "acceso ",
        "je ",
        "n'ai ",
        "pas ",
        "ich ",
        "habe ",
        "keinen Zugriff ",
        "у меня ",
        "нет ",
        "доступа ",
    ],
    *[". ", ".", "! ", "? ", "？", "。", ", ", "，", ": ", "\n", "\n\n", "…", "...", " - ", "(", ")", '"', "“", "”", "«", "「", "」"],
    *[
        "`",
        "```",
        "``",
        "'",
        "’",
        "a.txt ",
        "e.g. ",
        "1. ",
        "**",
        "_",
        "\u200b",
        "\u00ad",
        "\u0301",
        "ﬁ",
        "İ",
        "ß",
        "\ud800",
        "\x00",
        "🙂",
        "x" * 70,
    ],
]
texts = st.one_of(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.text(max_size=200))
limits = st.sampled_from([0, 1, 20, 100, LIMIT])


def streamed(text, about, cuts, limit, *, patient):
    """What a scan says that is fed pieces of these sizes, and asked no more once it gave an answer."""
    scan = CLASSIFIER.scan(about, limit, patient=patient)
    at, turn = 0, 0
    while at < len(text) and scan.answer is Hold.HOLD:
        size = cuts[turn % len(cuts)]
        scan.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    before = scan.answer
    scan.close()
    return before if before is not Hold.HOLD else None, scan.answer, scan.hit


@settings(max_examples=1500, deadline=None)
@given(texts, st.lists(st.integers(1, 30), min_size=1, max_size=5), limits, st.booleans(), st.booleans())
def test_the_answer_does_not_depend_on_the_cut(text, cuts, limit, results, patient):
    about = offered(results=results)
    whole = streamed(text, about, [max(1, len(text))], limit, patient=patient)
    assert streamed(text, about, cuts, limit, patient=patient) == whole
    assert streamed(text, about, [1], limit, patient=patient) == whole
    assert whole[1] in (Hold.RELEASE, Hold.REFUSE)
    assert (whole[2] is not None) == (whole[1] is Hold.REFUSE)


@pytest.mark.parametrize("name", ["refusals.jsonl", "refusals_unseen.jsonl", "refusals_unseen_more.jsonl", "refusals_unseen_plain.jsonl"])
def test_every_case_is_the_same_at_every_split_point(name):
    for case in cases(name):
        about = context_of(case)
        text = case["text"]
        whole = streamed(text, about, [len(text) or 1], LIMIT, patient=False)
        for at in range(1, len(text)):
            scan = CLASSIFIER.scan(about, LIMIT)
            if scan.feed(text[:at]) is Hold.HOLD:
                scan.feed(text[at:])
            scan.close()
            assert (scan.answer, scan.hit) == whole[1:], (case["id"], at)


@settings(max_examples=300, deadline=None)
@given(texts, limits)
def test_no_more_than_the_bound_is_held(text, limit):
    scan = CLASSIFIER.scan(offered(), limit)
    scan.feed(text + "x" * (limit + 1))
    assert scan.answer is not Hold.HOLD
    assert scan.read <= limit


HOSTILE = {
    "prose": "The quarterly report shows that revenue grew, and so on. ",
    "one sentence": "i do not have no tools and ",
    "beginnings": "i i i we we as an ai ",
    "chinese": "我没有我无法作为",
    "quotes": '" “ ',
    "ticks": "` `` ",
    "dots": "a.b. ",
    "apostrophes": "a'b' ",
    "hits and guards": "i have no tools if i can't ",
    "one word": "x",
    "marks": "a\u0301\u0301\u0301",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_time_is_linear(name):
    seed = HOSTILE[name]

    def work(text: str) -> None:
        scan = CLASSIFIER.scan(offered(), len(text) + 1, patient=True)
        for at in range(0, len(text), 20):
            scan.feed(text[at : at + 20])
        scan.close()

    assert growth(lambda size: (seed * (size // len(seed) + 1))[:size], work, 2_000, 8) < 2.0


def test_a_long_text_costs_no_more_than_its_bound():
    def work(text: str) -> None:
        CLASSIFIER.classify(text, offered(), LIMIT)

    text = scanned("I'm sorry that ", offered())  # warms every cache
    assert text.hit is None
    assert growth(lambda size: ("I'm sorry that " * (size // 15 + 1))[:size], work, 1_000, 64) < 1.0
