"""pydantic-ai: one agent with one tool. usage: pydantic_ai_loop.py ROOT chat|responses|messages whole|stream|typed; prints the story as JSON."""

import asyncio
import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent

root, api, mode = sys.argv[1:4]
called = []


class Place(BaseModel):
    """The town that was asked about."""

    city: str


def model():
    if api == "messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel("m", provider=AnthropicProvider(api_key="k", base_url=root))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatModel
    return kind("m", provider=OpenAIProvider(base_url=f"{root}/v1", api_key="k"))


async def main() -> None:
    if mode == "typed":  # an output type is a tool that must be called
        answer = (await Agent(model(), output_type=Place).run("Weather in Oslo?")).output
        print(json.dumps({"text": None, "called": [["final_result", answer.model_dump()]]}))
        return
    agent = Agent(model())

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Weather now."""
        called.append(["get_weather", {"city": city}])
        return "4 degrees"

    if mode == "stream":
        async with agent.run_stream("Weather in Oslo?") as result:
            text = await result.get_output()
    else:
        text = (await agent.run("Weather in Oslo?")).output
    print(json.dumps({"text": text, "called": called}))


asyncio.run(main())
