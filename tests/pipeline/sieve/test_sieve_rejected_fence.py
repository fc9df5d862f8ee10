"""A fenced block that became no call is a fence like any other: what stands behind it is read as behind a fence of another language (S4, S6)."""

from __future__ import annotations

import pytest

from tests.pipeline.dialects.reading import calls_of, read

REJECTED = {
    "unknown tool": '{"tool": "nope", "parameters": {}}',
    "unknown tools": '[{"tool": "nope", "parameters": {}}, {"tool": "nor", "parameters": {}}]',
    "unknown tools apart": '{"tool": "nope", "parameters": {}}\n{"tool": "nor", "parameters": {}}',
    "unknown tool, bracket missing": '{"tool": "nope", "parameters": {}',
    "placeholder": '{"tool": "NAME", "parameters": {}}',
    "placeholder, bracket missing": '{"tool": "NAME", "parameters": {}',
    "no name": '{"parameters": {}}',
    "arguments are a number": '{"tool": "ping", "parameters": 7}',
    "arguments are a number, bracket missing": '{"tool": "ping", "parameters": 7',
    "no object": "nothing to call",
    "malformed": '{"tool": "ping", "parameters": {"a": }}',
    "more behind": '{"tool": "ping", "parameters": {}} and so on',
    "empty": "",
}
FENCES = {"backticks": "```", "more backticks": "`````", "tildes": "~~~"}
CALL = '```json action\n{"tool": "ping", "parameters": {}}\n```'
SHELL = '<tool_calls><invoke name="ping"></invoke></tool_calls>'
TAILS = {
    "a call": f"\n\n{CALL}",
    "a call in the next line": f"\n{CALL}",
    "a call in tags": f"\n\n{SHELL}",
    "an example": f"\n\nExample:\n\n```\n{SHELL}\n```\n",
    "an example with a call behind it": f"\n\n~~~\n{SHELL}\n~~~\n\n{CALL}",
    "an example in a span": f"\n\nSay `{SHELL}` then.",
    "nothing": "",
}


@pytest.mark.parametrize("unknown_tools", ["forward", "text", "retry"])
@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("body", REJECTED)
@pytest.mark.parametrize("tail", TAILS)
def test_what_stands_behind_a_rejected_block_is_read_as_behind_any_fence(tail: str, body: str, fence: str, unknown_tools: str) -> None:
    marks = FENCES[fence]
    as_action, as_other = (f"{marks}{info}\n{REJECTED[body]}\n{marks}{TAILS[tail]}" for info in ("json action", "yaml"))
    found = calls_of(read(as_action, unknown_tools=unknown_tools))
    if unknown_tools == "forward" and body.startswith("unknown"):
        found = [call for call in found if call[0] == "ping"]  # those are calls by default
    assert found == calls_of(read(as_other, unknown_tools=unknown_tools))


@pytest.mark.parametrize("lead", ["Now: ", "> Now: ", "- Now: "])
@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("body", [name for name in REJECTED if REJECTED[name].startswith(("{", "["))])
@pytest.mark.parametrize("tail", TAILS)
def test_so_it_is_in_the_middle_of_a_line(tail: str, body: str, fence: str, lead: str) -> None:
    marks = FENCES[fence]
    inside = f"{REJECTED[body]}\n{marks}"
    if lead.startswith(">"):
        inside = inside.replace("\n", "\n> ")
    elif lead.startswith("-"):
        inside = inside.replace("\n", "\n  ")
    margin = "> " if lead.startswith(">") else "  " if lead.startswith("-") else ""
    as_action = f"{lead}{marks}json action\n{margin}{inside}{TAILS[tail]}"
    as_other = f"{lead[:2] if margin else ''}{marks}yaml\n{margin}{inside}{TAILS[tail]}"
    assert calls_of(read(as_action, unknown_tools="text")) == calls_of(read(as_other, unknown_tools="text"))


def test_a_mention_in_the_middle_of_a_line_opens_no_fence() -> None:
    assert calls_of(read(f"Start with ```json action\nand then the object.\n\n{CALL}")) == [("ping", {})]
