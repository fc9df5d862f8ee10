"""`toolgraft contract`: prints what a model would be shown for some tools, and how large it is at each tier.

In: a file with a `tools` array, or with a whole request body, in the form of any of the three protocols (`-` is standard input). Out: the
size of the contract per tier, then the messages as they would go upstream; with `--json` one JSON object,
`{"dialect", "tier", "sizes": {tier: {"bytes", "tokens"}}, "messages": [{"role", "content"}]}`. The stages are those of the proxy.
"""

from __future__ import annotations

from typing import TextIO

import click
import msgspec

from pipeline import json_values
from pipeline.contract.block import TIERS, Brief, write_tier
from pipeline.contract.offer import ChoiceError, offered
from pipeline.dialects import registry
from pipeline.settings import Settings
from pipeline.stage import StageError
from pipeline.stages.history_guard import HistoryGuard
from pipeline.stages.normalize import Normalize
from pipeline.stages.prompt_contract import PromptContract
from pipeline.text.tokens import estimate
from pipeline.turn import ChoiceMode, Text, ToolChoice, Turn
from pipeline.verdicts import Api, Tier

_ASKED = "(the user's request)"
_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED, "any": ChoiceMode.REQUIRED}
_DEFAULTS = Settings()


@click.command("contract")
@click.option(
    "--tools",
    "file",
    type=click.File(encoding="utf-8"),
    required=True,
    help="JSON: a tools array or a whole request body; - reads standard input.",
)
@click.option("--dialect", default=_DEFAULTS.contract, show_default=True, help="The dialect to teach.")
@click.option(
    "--tier", type=click.Choice([tier.value for tier in TIERS]), help="How much of each tool is shown. Default: the most that fits."
)
@click.option("--choice", help="auto, none, required, or the name of a tool. Default: what the request says.")
@click.option("--max-bytes", type=int, default=_DEFAULTS.contract_max_bytes, show_default=True, help="What the contract may take.")
@click.option(
    "--example-turns",
    type=click.IntRange(0, 3),
    default=_DEFAULTS.example_turns,
    show_default=True,
    help="Worked exchanges before the first call.",
)
@click.option("--neutral", is_flag=True, help="The plain-worded variant.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(
    file: TextIO, dialect: str, tier: str | None, choice: str | None, max_bytes: int, example_turns: int, neutral: bool, as_json: bool
) -> None:
    """Print the contract that a model would be shown for these tools."""
    settings = Settings(
        contract=dialect,
        dialects=tuple(dict.fromkeys((dialect, *_DEFAULTS.dialects))),
        contract_max_bytes=max_bytes,
        example_turns=example_turns,
        neutral_contract=neutral,
    )
    try:
        (taught,) = registry.load((dialect,))
        turn = _turn(file.read(), settings, choice)
        wanted = turn.tool_choice
        named = wanted.name if wanted.mode is ChoiceMode.NAMED else None
        brief = Brief(offered(turn.tools, wanted) or turn.tools, taught, neutral, turn.parallel_calls, named)
        sizes = {each: _size(brief, each) for each in TIERS}
        if tier is not None:
            settings = msgspec.structs.replace(settings, contract_max_bytes=sizes[Tier(tier)][0])
        turn = PromptContract(settings).prepare(turn, _unheard)
    except (registry.UnknownDialectError, ChoiceError, StageError, json_values.NotJsonError) as exc:
        raise click.ClickException(str(exc)) from None
    shown = [
        (
            message.role.value,
            "\n".join(part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in message.parts),
        )
        for message in turn.messages
    ]
    used = turn.emulation.tier if turn.emulation is not None else None
    if as_json:
        report = {
            "dialect": dialect,
            "tier": used,
            "sizes": {each: {"bytes": size, "tokens": tokens} for each, (size, tokens) in sizes.items()},
            "messages": [{"role": role, "content": text} for role, text in shown],
        }
        click.echo(json_values.dumps(report))
        return
    click.echo(f"{len(turn.tools)} tool(s), dialect {dialect}")
    for each, (size, tokens) in sizes.items():
        click.echo(f"  {each:8} {size:7} bytes, about {tokens} tokens{'  <- shown below' if each is used else ''}")
    if used is None:
        click.echo(f"  no contract in this turn: {turn.emulation_reason}")
    for role, text in shown:
        click.echo(f"\n--- {role} ---\n{text}")


def _turn(text: str, settings: Settings, choice: str | None) -> Turn:
    """The file's content, read as the proxy would read it."""
    given = json_values.loads(text)
    body = {"tools": given} if isinstance(given, list) else given
    if not isinstance(body, dict) or not isinstance(body.get("tools"), list):
        raise click.ClickException("the file holds neither a tools array nor a request body with one")
    api = _api_of(body)
    asked = {"input": _ASKED} if api is Api.OPENAI_RESPONSES else {"messages": [{"role": "user", "content": _ASKED}]}
    body = {"model": "model", **({"max_tokens": 1} if api is Api.ANTHROPIC_MESSAGES else {}), **asked, **body}
    if choice is not None:
        body.pop("tool_choice", None)
    turn = Normalize(settings).prepare(Turn(api, body=body), _unheard)
    if choice is not None:
        mode = _MODES.get(choice, ChoiceMode.NAMED)
        turn = msgspec.structs.replace(turn, tool_choice=ToolChoice(mode, choice if mode is ChoiceMode.NAMED else None))
    return HistoryGuard(settings).prepare(turn, _unheard)


def _api_of(body: dict[str, object]) -> Api:
    """Tell the protocol from the form of the tools."""
    tools = body["tools"]
    entries = [entry for entry in tools if isinstance(entry, dict)] if isinstance(tools, list) else []
    if any("input_schema" in entry for entry in entries):
        return Api.ANTHROPIC_MESSAGES
    if "messages" in body or any("function" in entry for entry in entries):
        return Api.OPENAI_CHAT
    return Api.OPENAI_RESPONSES


def _size(brief: Brief, tier: Tier) -> tuple[int, int]:
    contract = write_tier(brief, tier)
    return contract.size, estimate(contract.text)


def _unheard(*_: object, **__: object) -> None:
    """Nobody listens."""
