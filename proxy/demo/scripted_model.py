"""An embedded stand-in for a text-only model: an OpenAI-compatible chat server that reads its prompt and writes plain text.

In: chat requests as the proxy sends them. Out: text, streamed in small pieces or whole. It knows no tools: names, argument names and
the format of a block are read out of the contract in the prompt, results out of the conversation. Every third task it starts as weak
models do, with a refusal or with a block that is malformed, so that the retry has something to show. Runs on loopback only.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from pipeline import json_values

PIECE_CHARS = 3
PIECE_PAUSE_S = 0.002
REFUSAL = "I'm sorry, but I don't have access to any tools here, so I can't do that for you."
_RESULT = re.compile(r"<tool_result[^>]*>\n(.*?)\n</tool_result", re.DOTALL)
_CITY = re.compile(r"\bin ([A-Z]\w+)")
_NOTE = re.compile(r"note: ([^\n]+?)\.?(?:\n|$)", re.IGNORECASE)


class ScriptedModel:
    """The server and the little mind behind it."""

    def __init__(self) -> None:
        """Begin with no task seen."""
        self.tasks = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen on a free loopback port; returns the base URL, ending in /v1."""
        app = web.Application(client_max_size=32 << 20)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    def reply(self, messages: Sequence[dict[str, object]]) -> str:
        """What the model writes to these messages."""
        said = [(str(message.get("role")), _text(message)) for message in messages]
        contract = "\n".join(text for role, text in said if role == "system")
        last = next((text for role, text in reversed(said) if role == "user"), "")
        results = _RESULT.findall(last)
        if results:
            return f"Here is what I found: {'; '.join(result.strip() for result in results)}."
        asked = [text for role, text in said if role == "user" and _is_task(text)]
        task = asked[-1] if asked else last
        corrected = bool(asked) and task is not last  # something was said behind the task: this is a second try
        block = self._block(contract, task)
        if not block:
            return "Hello! I am a text model; ask me something."
        if not corrected:
            self.tasks += 1
            if self.tasks % 3 == 2:
                return REFUSAL
            if self.tasks % 3 == 0:
                return _spoiled(block)
        return f"Let me see.\n{block}"

    def _block(self, contract: str, task: str) -> str:
        """A call for the task, with names out of the contract; empty where the contract offers nothing that fits."""
        city, note = _CITY.search(task), _NOTE.search(task)
        if note is not None:
            wanted, arguments = "note", {_name(contract, ("text", "note", "content")): note[1].strip()}
        elif city is not None:
            wanted, arguments = "weather", {_name(contract, ("city", "location", "place")): city[1]}
        else:
            return ""
        tool = re.search(rf"\b[\w.-]*{wanted}[\w.-]*\b", contract)
        if tool is None:
            return ""
        if "json action" in contract:
            return f"```json action\n{json_values.dumps({'tool': tool[0], 'parameters': arguments})}\n```"
        if "DSML" in contract:
            values = "".join(f'<|DSML|parameter name="{key}"><![CDATA[{value}]]></|DSML|parameter>\n' for key, value in arguments.items())
            return f'<|DSML|tool_calls>\n<|DSML|invoke name="{tool[0]}">\n{values}</|DSML|invoke>\n</|DSML|tool_calls>'
        return ""

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json_values.loads(await request.read())
        asked = body if isinstance(body, dict) else {}
        messages = asked.get("messages")
        text = self.reply(messages if isinstance(messages, list) else [])
        usage = {"prompt_tokens": len(json_values.dumps(messages)) // 4, "completion_tokens": len(text) // 4 + 1}
        usage["total_tokens"] = sum(usage.values())
        head = {"id": "chatcmpl-demo", "created": 0, "model": asked.get("model", "scripted")}
        if not asked.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        async for chunk in _chunks(text, usage):
            await response.write(b"data: " + json_values.dumps_bytes({**head, "object": "chat.completion.chunk", **chunk}) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


async def _chunks(text: str, usage: dict[str, int]) -> AsyncIterator[dict[str, object]]:
    for at in range(0, len(text), PIECE_CHARS):
        delta: dict[str, object] = {"content": text[at : at + PIECE_CHARS]}
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        await asyncio.sleep(PIECE_PAUSE_S)
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {"choices": [], "usage": usage}


def _is_task(text: str) -> bool:
    return bool(_CITY.search(text) or _NOTE.search(text))


def _name(contract: str, wanted: Sequence[str]) -> str:
    return next((name for name in wanted if re.search(rf"\b{name}\b", contract)), wanted[0])


def _spoiled(block: str) -> str:
    """The block with its value left open: the mistake that must never become a call."""
    return block.replace('"}}', "}").replace("]]></|DSML|parameter>\n</|DSML|invoke>", "")


def _text(message: dict[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""
