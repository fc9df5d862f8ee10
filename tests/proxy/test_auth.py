from __future__ import annotations

import pytest
from multidict import CIMultiDict

from proxy.auth import Gate, presented_key


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"Authorization": "Bearer k1"}, "k1"),
        ({"authorization": "bearer   k1 "}, "k1"),
        ({"X-Api-Key": "k1"}, "k1"),
        ({"api-key": "k1"}, "k1"),
        ({"x-api-key": "k1", "authorization": "Bearer k2"}, "k1"),
        ({"authorization": "Basic k1"}, None),
        ({"authorization": "Bearer"}, None),
        ({"authorization": "Bearer "}, None),
        ({"x-api-key": ""}, None),
        ({}, None),
    ],
)
def test_a_key_comes_in_three_forms(headers, key):
    assert presented_key(CIMultiDict(headers)) == key


def test_a_gate_with_keys_lets_their_holders_in_and_nobody_else():
    gate = Gate(["k1", "k2"])
    assert not gate.open
    assert [gate.admits(key) for key in ("k1", "k2")] == [True, True]
    assert [gate.admits(key) for key in (None, "", "k", "k11", "K1", "k1 ", "ключ", "\udcff")] == [False] * 8


def test_a_gate_without_keys_is_open():
    gate = Gate([])
    assert gate.open
    assert gate.admits(None)
    assert gate.admits("anything")


def test_a_gate_keeps_no_key():
    gate = Gate(["canary-key"])
    assert "canary" not in repr(vars(gate))
