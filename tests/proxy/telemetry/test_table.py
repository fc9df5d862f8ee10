"""The table against the enums and the catalogue, both ways."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pipeline
from pipeline.verdicts import Noted
from proxy.telemetry.catalogue import CATALOGUE, PREFIX, Names, domains
from proxy.telemetry.table import DERIVED, MODEL, TABLE

METRICS = {metric.name.removeprefix(PREFIX): metric for metric in CATALOGUE}


def test_every_note_has_one_row_and_every_row_a_note():
    assert set(TABLE) == set(Noted)


@pytest.mark.parametrize("noted", list(Noted))
def test_counters_of_a_row_exist_with_these_labels(noted):
    row = TABLE[noted]
    for count in row.counts:
        metric = METRICS[count.metric]
        assert len(count.labels) == len(metric.labels)
        for field in (*count.labels, *filter(None, (count.by, count.each))):
            assert field == MODEL or field in row.fields
        if count.each:
            assert count.each in count.labels


@pytest.mark.parametrize("noted", list(Noted))
def test_levels_choose_by_a_field_of_the_row(noted):
    row = TABLE[noted]
    assert bool(row.levels) == (row.level_of is not None)
    assert row.level_of is None or row.level_of in row.fields
    assert row.unlogged <= set(row.fields)


def test_derived_counters_exist():
    assert set(DERIVED) <= set(METRICS)


def test_every_label_of_the_catalogue_has_values():
    known = domains(Names())
    for metric in CATALOGUE:
        for label in metric.labels:
            assert known[metric.domain(label)]


def _notes_in_the_pipeline():
    """Every `note(Noted.X, field=...)` in the source, as (place, X, fields)."""
    root = Path(pipeline.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                first = node.args[0]
                if isinstance(first, ast.Attribute) and isinstance(first.value, ast.Name) and first.value.id == "Noted":
                    fields = {keyword.arg for keyword in node.keywords if keyword.arg}
                    yield f"{path.name}:{node.lineno}", Noted[first.attr], fields


def test_stages_say_only_what_the_table_knows():
    notes = list(_notes_in_the_pipeline())
    assert notes
    unknown = [(place, noted.value, sorted(fields - set(TABLE[noted].fields))) for place, noted, fields in notes]
    assert [entry for entry in unknown if entry[2]] == []
