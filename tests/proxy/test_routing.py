"""Model names to routes: order, globs, rewriting, labels, and stages that cannot be built."""

from __future__ import annotations

import pytest

from pipeline.chain import ChainError
from pipeline.stages.normalize import Normalize
from proxy.config import loads
from proxy.config.tree import Route
from proxy.routing import Plan, build_chain, label_of


def plan(model, rewrite=None):
    return Plan(Route(model=model, rewrite=rewrite), None, ())


@pytest.mark.parametrize(
    ("glob", "takes", "leaves"),
    [
        ("*", ["", "a", "a/b:c", "two\nlines"], []),
        ("qwen*", ["qwen", "qwen3:8b"], ["Qwen3", "my-qwen", ""]),
        ("exact", ["exact"], ["exact2", "an exact", "exac"]),
        ("a.b+c", ["a.b+c"], ["axb+c", "a.bbc"]),
        ("gpt-?", ["gpt-4"], ["gpt-", "gpt-41"]),
        ("org/*/chat", ["org/x/chat"], ["org/chat"]),
        ("[ab]", ["[ab]"], ["a"]),
        ("*a*b*", ["ab", "xaxbx", "aab", "bab"], ["ba", "a"]),
        ("*ab*ab", ["abab", "xabxab", "ababab"], ["ab", "xab"]),
        ("*", ["*"], []),
        ("**", ["", "x"], []),
    ],
)
def test_a_glob_takes_what_it_says(glob, takes, leaves):
    assert [name for name in takes if not plan(glob).takes(name)] == []
    assert [name for name in leaves if plan(glob).takes(name)] == []


@pytest.mark.parametrize(
    ("glob", "rewrite", "asked", "sent"),
    [
        ("*", None, "m", "m"),
        ("*", "fixed", "m", "fixed"),
        ("local/*", "*", "local/qwen3", "qwen3"),
        ("*", "org/*", "m", "org/m"),
        ("a*b*", "*", "axxbyy", "xx"),
        ("exact", "*-v2", "exact", "exact-v2"),
    ],
)
def test_a_name_is_rewritten(glob, rewrite, asked, sent):
    assert plan(glob, rewrite).upstream_model(asked) == sent


@pytest.mark.parametrize(
    ("glob", "rewrite", "theirs", "ours"),
    [
        ("*", None, "m", "m"),
        ("qwen*", None, "llama", None),
        ("local/*", "*", "qwen3", "local/qwen3"),
        ("*", "org/*", "org/m", "m"),
        ("*", "org/*", "other/m", None),
        ("*", "aa*aa", "aaa", None),
        ("*", "fixed", "fixed", None),
        ("a*b*", "*", "xx", None),
        ("gpt-?*", "*", "x", None),
    ],
)
def test_the_way_back_from_an_upstreams_name(glob, rewrite, theirs, ours):
    one = plan(glob, rewrite)
    assert one.client_model(theirs) == ours
    assert ours is None or one.upstream_model(ours) == theirs


def test_no_name_makes_a_glob_slow():
    # a pattern that backtracks over its stars would still be busy when the test times out
    assert not plan("a*a*a*a*a*a*a*a*b").takes("a" * 256)


def test_labels_are_globs_and_the_one_for_everything_tells_nothing():
    assert label_of(Route(model="qwen*")) == "qwen*"
    assert label_of(Route(model="*")) == "other"
    assert plan("exact").literal == "exact"
    assert plan("exac?").literal is None


def test_a_stage_that_cannot_be_built_is_named(monkeypatch):
    def broken(self, settings):
        raise ValueError("no such level")

    monkeypatch.setattr(Normalize, "__init__", broken)
    config = loads('stages = ["normalize", "upstream", "re_encode"]\n[upstreams.a]\nurl = "http://x"\n', {})
    with pytest.raises(ChainError, match=r"'\*' cannot be built: ValueError: no such level"):
        build_chain(config, config.routes[0])
