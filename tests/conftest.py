"""Heavy tests (real agents, other people's packages, long profiles) run only where they are asked for: `-m heavy`."""

from __future__ import annotations

import pytest

_LEFT_OUT = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.markexpr:
        return
    heavy = [item for item in items if item.get_closest_marker("heavy")]
    config.stash[_LEFT_OUT] = len(heavy)
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if not item.get_closest_marker("heavy")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(f"{left_out} heavy tests were left out; `python -m pytest -m heavy PATH` runs them")
