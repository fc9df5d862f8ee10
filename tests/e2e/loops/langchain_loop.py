"""langchain: an agent with one tool. usage: langchain_loop.py ROOT chat|responses|messages whole|stream|bind|structured; prints the story as JSON."""

import json
import sys

from langchain.agents import create_agent
from langchain_core.tools import tool

root, api, mode = sys.argv[1:4]
called = []
PLACE = {"title": "place", "description": "the town", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@tool
def get_weather(city: str) -> str:
    """Weather now."""
    called.append(["get_weather", {"city": city}])
    return "4 degrees"


def model():
    if api == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="m", base_url=root, api_key="k", streaming=mode == "stream", max_retries=0)
    from langchain_openai import ChatOpenAI

    kwargs = {"streaming": mode == "stream", "use_responses_api": api == "responses", "max_retries": 0}
    return ChatOpenAI(model="m", base_url=f"{root}/v1", api_key="k", **kwargs)


text = None
if mode == "bind":
    made = model().bind_tools([get_weather], tool_choice="any").invoke("Weather in Oslo?")
    called = [[call["name"], call["args"]] for call in made.tool_calls]
elif mode == "structured":
    called = [["place", model().with_structured_output(PLACE, method="function_calling").invoke("Weather in Oslo?")]]
else:
    state = create_agent(model(), [get_weather]).invoke({"messages": [{"role": "user", "content": "Weather in Oslo?"}]})
    text = state["messages"][-1].text
print(json.dumps({"text": str(text) if text is not None else None, "called": called}))
