"""The command line. Every module in `proxy/cli` is a command; it is imported when it is asked for, so that small ones start fast."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.metadata import version

import click

import proxy.cli


class Commands(click.Group):
    """The commands, by the names of their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """Every command, sorted."""
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(proxy.cli.__path__) if module.name[0] != "_")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, or None where there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"proxy.cli.{cmd_name.replace('-', '_')}").command
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("toolgraft"), prog_name="toolgraft")
def main() -> None:
    """Toolgraft gives tool calling to chat models that lack it."""


if __name__ == "__main__":
    main()
