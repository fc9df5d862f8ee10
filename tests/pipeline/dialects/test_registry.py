"""Dialects load by name, built-in ones through the same door as anybody's."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pipeline.dialects import registry
from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction


def test_built_in_dialects_load_once_in_the_order_asked_for():
    dsml, json_action = registry.load(("dsml", "json_action"))
    assert isinstance(dsml, Dsml)
    assert isinstance(json_action, JsonAction)
    assert registry.load(["json_action"])[0] is json_action


def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(registry.UnknownDialectError, match=r"unknown dialect 'klingon'; known: dsml, json_action") as caught:
        registry.load(("json_action", "klingon"))
    assert (caught.value.name, caught.value.known[:2]) == ("klingon", ("dsml", "json_action"))


def test_an_entry_point_may_hold_an_object_or_a_factory(monkeypatch):
    entries = {
        "ready": EntryPoint("ready", "tests.pipeline.dialects.test_registry:READY", registry.GROUP),
        "made": EntryPoint("made", "pipeline.dialects.dsml:Dsml", registry.GROUP),
    }
    monkeypatch.setattr(registry, "known", lambda: entries)
    registry._one.cache_clear()
    try:
        ready, made = registry.load(("ready", "made"))
        assert ready.name == "ready"
        assert isinstance(made, Dsml)
    finally:
        registry._one.cache_clear()


class _Ready(JsonAction):
    name = "ready"


READY = _Ready()
