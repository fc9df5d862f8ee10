from __future__ import annotations

import re

from pipeline.protocols import ids


def test_every_prefix_makes_ids_that_the_strictest_reader_takes():
    prefixes = [value for name, value in vars(ids).items() if name.isupper() and isinstance(value, str)]
    assert len(prefixes) == 10
    for prefix in prefixes:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", ids.mint(prefix))
        assert ids.mint(prefix).startswith(prefix)


def test_ids_do_not_repeat():
    assert len({ids.mint(ids.CALL) for _ in range(2000)}) == 2000


def test_a_call_id_has_29_characters():
    assert len(ids.mint(ids.CALL)) == 29
