"""The page is what the tree says, every key has words, and what is printed reads back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pipeline.settings import Settings, UpstreamTraits
from proxy.config import from_upstream_url, loads
from proxy.config.document import document
from proxy.config.fields import FLAT, keys
from proxy.config.tree import GROUPS, Admin, Auth, Capture, Drain, Limits, Listen, Log, Route, Upstream
from proxy.config.words import SETTINGS_WORDS, TRAITS_WORDS
from proxy.config.write import to_toml

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_what_the_tree_says():
    assert PAGE.read_text() == document(), "write it anew: python -m proxy.config.document > docs/configuration.md"


@pytest.mark.parametrize("struct", [Listen, Admin, Drain, Limits, Auth, Log, Capture, Upstream, Route, Settings, UpstreamTraits])
def test_every_key_has_words(struct):
    flat = FLAT.get(struct)
    hidden = {flat[0]} if flat else {"name", "own_key"} if struct is UpstreamTraits else set()
    assert [name for name, key in keys(struct).items() if not key.words and name not in hidden] == []


def test_no_words_are_spare():
    assert set(SETTINGS_WORDS) <= set(keys(Settings))
    assert set(TRAITS_WORDS) <= set(keys(UpstreamTraits))


def test_groups_share_no_key_and_name_real_ones():
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names))
    assert set(names) <= set(keys(Settings))


def test_what_is_printed_reads_back_as_the_same():
    config = from_upstream_url("http://127.0.0.1:11434", {})
    assert loads(to_toml(config), {}) == config
    text = (
        'workers = 2\n[upstreams."odd name"]\nurl = "http://x/\\u00e9\\u007f"\nkey_env = "K"\nimages = false\n'
        '[defaults.stages.mine]\nlevel = 3\nnames = ["a", "b"]\n'
        '[[routes]]\nmodel = "a\\"b*"\nrewrite = "*"\ncontract = "dsml"\nhold_s = 0.5\n[[routes]]\nupstreams = ["odd name"]\n'
    )
    config = loads(text, {"K": "v"})
    printed = to_toml(config)
    assert loads(printed, {"K": "v"}) == config
    assert '"v"' not in printed


def test_sections_are_frozen():
    with pytest.raises(AttributeError):
        Listen().port = 1
    assert msgspec.structs.asdict(Listen())["port"] == 8790
