"""`docs/protocols.md` names what requests lose, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.settings import Settings, UpstreamTraits
from pipeline.verdicts import DroppedParameter, ReplacedContent

PAGE = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text()
NAMED = set(re.findall(r"`([^`]+)`", PAGE))


def row_of(heading: str) -> str:
    """The section under this heading."""
    return PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("name", [*DroppedParameter, *ReplacedContent])
def test_every_name_that_a_warning_can_hold_is_explained(name):
    assert f"`{name.value}`" in row_of("Names in warnings and events")


def test_no_name_is_explained_that_no_warning_holds():
    explained = set(re.findall(r"`([a-z_.]+)`", row_of("Names in warnings and events")))
    assert explained == {name.value for name in (*DroppedParameter, *ReplacedContent)}


@pytest.mark.parametrize("setting", ["answer_model", "reasoning_key", "strict_params", "refuse_media"])
def test_every_setting_it_speaks_of_is_one(setting):
    known = {*Settings.__struct_fields__, *UpstreamTraits.__struct_fields__}
    assert setting in known
    assert any(setting in name for name in NAMED)


def test_its_links_lead_somewhere():
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in PAGE.splitlines() if line.startswith("#")
    }
    assert {link for link in re.findall(r"\]\(#([^)]+)\)", PAGE) if link not in anchors} == set()
    folder = Path(__file__).parents[2]
    assert [name for name in NAMED if name.startswith("docs/") and not (folder / name).exists()] == []
