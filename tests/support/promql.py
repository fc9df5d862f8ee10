"""Queries taken apart: which metrics they name, and Grafana's variables put in."""

from __future__ import annotations

from typing import Any

import promql_parser


def filled(expr: str, *, job: str = ".+", model: str = ".+", interval: str = "1m", shown: str = "30m") -> str:
    """A panel's query as Grafana would send it."""
    values = {"$__rate_interval": interval, "$__range": shown, "$job": job, "$model": model}
    for name, value in values.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def metrics_of(expr: str) -> set[str]:
    """Every metric name in a query. Raises ValueError when it does not parse."""
    found: set[str] = set()
    _walk(promql_parser.parse(expr), found)
    return found


def _walk(node: Any, found: set[str]) -> None:
    """The parser's nodes have no common way to their children: look at every attribute that holds one."""
    if isinstance(node, promql_parser.VectorSelector):
        assert node.name, "a selector without a metric name"
        found.add(node.name)
        return
    if isinstance(node, promql_parser.MatrixSelector):
        _walk(node.vector_selector, found)
        return
    for name in ("expr", "lhs", "rhs", "param"):
        child = getattr(node, name, None)
        if child is not None:
            _walk(child, found)
    for child in getattr(node, "args", None) or ():
        _walk(child, found)
