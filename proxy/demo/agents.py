"""Two small agents, one on each official SDK: ask, run the calls that come, give the results back, until an answer comes.

In: a base URL of the proxy, a model name, a user's request. Out: the final text, empty when none came within MAX_TURNS; every step goes to a `Story`. Both stream.
"""

from __future__ import annotations

from typing import Any, Protocol

from pipeline import json_values
from proxy.demo.tools import ANTHROPIC_TOOLS, OPENAI_TOOLS, Workbench

MAX_TURNS = 4
MAX_TOKENS = 160


class Story(Protocol):
    """Whoever wants to see the steps."""

    def asked(self, client: str, request: dict[str, Any]) -> None:
        """A request is about to be sent by the client."""

    def received(self, client: str, text: str, calls: list[tuple[str, str]], finish: str) -> None:
        """The client got a whole answer: text, (name, arguments) of each call, finish reason."""

    def ran(self, name: str, result: str) -> None:
        """A tool was run by the agent."""


async def openai_agent(base_url: str, model: str, key: str, task: str, bench: Workbench, story: Story) -> str:
    """Run one task through the official OpenAI SDK, streaming."""
    from openai import AsyncOpenAI, LengthFinishReasonError  # noqa: PLC0415 - an extra
    from openai.types.chat import ChatCompletion  # noqa: PLC0415

    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    text = ""
    async with AsyncOpenAI(base_url=f"{base_url}/v1", api_key=key, max_retries=0) as client:
        for _ in range(MAX_TURNS):
            request: dict[str, Any] = {
                "model": model,
                "messages": messages,
                "tools": OPENAI_TOOLS,
                "max_tokens": MAX_TOKENS,
                "temperature": 0,
            }
            story.asked("openai SDK", request)
            try:
                completion: ChatCompletion
                async with client.chat.completions.stream(**request) as stream:
                    completion = await stream.get_final_completion()
            except LengthFinishReasonError as exc:  # this SDK's helper raises where an answer met max_tokens
                completion = exc.completion
            message = completion.choices[0].message
            text = message.content or ""
            calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or [] if call.type == "function"]
            story.received("openai SDK", text, [(name, arguments) for _, name, arguments in calls], completion.choices[0].finish_reason)
            if not calls:
                return text
            text = ""
            messages.append(
                {
                    "role": "assistant",
                    "content": text or None,
                    "tool_calls": [
                        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
                        for id_, name, arguments in calls
                    ],
                }
            )
            for id_, name, arguments in calls:
                parsed = json_values.loads(arguments)
                result, _ = bench.run(name, parsed if isinstance(parsed, dict) else {})
                story.ran(name, result)
                messages.append({"role": "tool", "tool_call_id": id_, "content": result})
    return text


async def anthropic_agent(base_url: str, model: str, key: str, task: str, bench: Workbench, story: Story) -> str:
    """Run one task through the official Anthropic SDK, streaming."""
    from anthropic import AsyncAnthropic  # noqa: PLC0415 - an extra

    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    text = ""
    async with AsyncAnthropic(base_url=base_url, api_key=key, max_retries=0) as client:
        for _ in range(MAX_TURNS):
            request: dict[str, Any] = {"model": model, "messages": messages, "tools": ANTHROPIC_TOOLS, "max_tokens": MAX_TOKENS}
            story.asked("anthropic SDK", request)
            async with client.messages.stream(**request, extra_body={"temperature": 0}) as stream:
                message = await stream.get_final_message()
            text = "".join(block.text for block in message.content if block.type == "text")
            uses = [block for block in message.content if block.type == "tool_use"]
            story.received("anthropic SDK", text, [(use.name, json_values.dumps(use.input)) for use in uses], str(message.stop_reason))
            if not uses:
                return text
            text = ""
            messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]})
            results = []
            for use in uses:
                result, is_error = bench.run(use.name, use.input if isinstance(use.input, dict) else {})
                story.ran(use.name, result)
                results.append({"type": "tool_result", "tool_use_id": use.id, "content": result, "is_error": is_error})
            messages.append({"role": "user", "content": results})
    return text
