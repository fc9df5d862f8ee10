"""openai-agents: one agent with one function tool. usage: openai_agents.py ROOT chat|responses whole|stream|required; prints the story as JSON."""

import asyncio
import json
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

root, api, mode = sys.argv[1:4]
set_tracing_disabled(True)
called = []


@function_tool
def get_weather(city: str) -> str:
    """Weather now."""
    called.append(["get_weather", {"city": city}])
    return "4 degrees"


async def main() -> None:
    client = AsyncOpenAI(base_url=f"{root}/v1", api_key="k", max_retries=0)
    model = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[api](model="m", openai_client=client)
    settings = ModelSettings(tool_choice="required") if mode == "required" else ModelSettings()
    agent = Agent(name="w", instructions="Answer.", model=model, tools=[get_weather], model_settings=settings)
    if mode == "stream":
        result = Runner.run_streamed(agent, "Weather in Oslo?")
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, "Weather in Oslo?")
    print(json.dumps({"text": result.final_output, "called": called}))


asyncio.run(main())
