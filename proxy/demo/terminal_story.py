"""Prints the demo's steps for a person: what the client sent, what the model was shown, what it wrote, what the client received."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from pipeline import json_values
from proxy.demo.tap import Tap

_SHOWN_CHARS = 1800


class TerminalStory:
    """A Story on a terminal. Reads the model's side from the tap, as far as it got since the last step."""

    def __init__(self, console: Console, tap: Tap, *, full: bool = False) -> None:
        """Print to `console`; `full` leaves nothing out of long texts."""
        self._console = console
        self._tap = tap
        self._full = full
        self._told = 0
        self._shown: set[str] = set()
        self.blocks_written = 0

    def asked(self, client: str, request: dict[str, Any]) -> None:
        """Show what the client sends."""
        last = request["messages"][-1]
        tools = ", ".join(_tool_name(tool) for tool in request["tools"])
        content = last["content"] if isinstance(last["content"], str) else json_values.dumps(last["content"])
        self._panel(f"{client} sends", f"tools: {tools}\n{last['role']}: {content}", "cyan")

    def received(self, client: str, text: str, calls: list[tuple[str, str]], finish: str) -> None:
        """Show the model's side of the turn, then what the client got."""
        self._tell_model_side()
        lines = [f"text: {text}"] if text else []
        lines += [f"call: {name} {arguments}" for name, arguments in calls]
        self._panel(f"{client} receives (finish: {finish})", "\n".join(lines) or "(nothing)", "green")

    def ran(self, name: str, result: str) -> None:
        """Show what a tool returned."""
        self._panel(f"the agent runs {name}", result, "magenta")

    def _tell_model_side(self) -> None:
        while self._told < len(self._tap.exchanges):
            exchange = self._tap.exchanges[self._told]
            self._told += 1
            shown = []
            for message in exchange.messages():
                line = f"[{message.get('role')}] {message.get('content')}"
                if line in self._shown:
                    line = f"[{message.get('role')}] (as before, {len(line)} characters)"
                self._shown.add(line)
                shown.append(self._short(line))
            self._panel(f"the model is shown (request {self._told})", "\n".join(shown), "yellow")
            written = exchange.text()
            self._panel("the model writes, as plain text", self._short(written) or f"(nothing; HTTP {exchange.status})", "red")

    def _short(self, text: str) -> str:
        if self._full or len(text) <= _SHOWN_CHARS:
            return text
        half = _SHOWN_CHARS // 2
        return f"{text[:half]}\n   ... {len(text) - 2 * half} characters more (--full shows them) ...\n{text[-half:]}"

    def _panel(self, title: str, body: str, style: str) -> None:
        self._console.print(Panel(Text(body), title=title, title_align="left", border_style=style))


def _tool_name(tool: dict[str, Any]) -> str:
    name = tool.get("name") or tool["function"]["name"]
    return str(name)
