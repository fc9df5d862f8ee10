"""The tasks of a probe: what is asked, which tools are offered, and what a right answer is.

In: an answer as an OpenAI Chat client receives it. Out: right or what was wrong with it. The order is that of importance: a small budget
takes the first ones. Arguments are compared as values, text without regard to case and white space around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pipeline import json_values

Message = Mapping[str, Any]
Made = tuple[str, Mapping[str, Any]]
"""A call as the client sees it: name and arguments."""


class Answer(msgspec.Struct, frozen=True):
    """What the client received."""

    text: str
    calls: tuple[Made, ...]


class Task(msgspec.Struct, frozen=True):
    """One task. `fault` gives "" for a right answer, else a few words on what is wrong."""

    id: str
    about: str
    messages: tuple[Message, ...]
    tools: tuple[Message, ...]
    fault: Callable[[Answer], str]


def _tool(tool: str, about: str, /, **arguments: str) -> Message:
    properties = {name: {"type": "string", "description": described} for name, described in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": tool, "description": about, "parameters": schema}}


_WEATHER = _tool("get_weather", "Current weather of a city.", city="Name of the city")
_WRITE = _tool("write_file", "Write text to a file.", path="Path of the file", content="The whole text of the file")
_READ = _tool("read_file", "Read a file and return its text.", path="Path of the file")
_SEARCH = _tool("search_web", "Search the web and return the best results.", query="What to search for")
_MAIL = _tool("send_mail", "Send an e-mail.", to="Address of the recipient", text="Text of the mail")


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _called(identity: str, name: str, arguments: Mapping[str, Any]) -> Message:
    function = {"name": name, "arguments": json_values.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": identity, "type": "function", "function": function}]}


def _result(identity: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": text}


def _calls(*expected: Made) -> Callable[[Answer], str]:
    """Exactly these calls, in any order."""

    def fault(answer: Answer) -> str:
        if not answer.calls:
            return "no call"
        if len(answer.calls) != len(expected):
            return f"{len(answer.calls)} calls instead of {len(expected)}"
        left = list(answer.calls)
        for name, arguments in expected:
            match = next((call for call in left if call[0] == name and _same(call[1], arguments)), None)
            if match is None:
                return "another tool" if all(call[0] != name for call in left) else "other arguments"
            left.remove(match)
        return ""

    return fault


def _same(given: object, wanted: object) -> bool:
    if isinstance(given, Mapping) and isinstance(wanted, Mapping):
        return given.keys() == wanted.keys() and all(_same(given[key], wanted[key]) for key in wanted)
    if isinstance(given, str) and isinstance(wanted, str):
        return given.strip().casefold() == wanted.strip().casefold()
    return given == wanted


def _says(*words: str) -> Callable[[Answer], str]:
    """Text with one of these words, and no call."""

    def fault(answer: Answer) -> str:
        if answer.calls:
            return "a call that was not needed"
        if not answer.text.strip():
            return "nothing"
        return "" if any(word in answer.text for word in words) else "an answer without the point"

    return fault


def _writes_code(path: str, parts: Sequence[str], lines: int) -> Callable[[Answer], str]:
    """One call that writes a program of so many lines, every part in it."""

    def fault(answer: Answer) -> str:
        if len(answer.calls) != 1:
            return "no call" if not answer.calls else f"{len(answer.calls)} calls instead of 1"
        name, arguments = answer.calls[0]
        content = arguments.get("content")
        if name != "write_file" or arguments.get("path") != path or not isinstance(content, str):
            return "other arguments"
        if len(content.strip().splitlines()) < lines:
            return "code on fewer lines than it has"
        return "" if all(part in content for part in parts) else "code with parts missing"

    return fault


TASKS: tuple[Task, ...] = (
    Task(
        "single",
        "one tool, one argument",
        (_user("What is the weather in Oslo right now?"),),
        (_WEATHER,),
        _calls(("get_weather", {"city": "Oslo"})),
    ),
    Task(
        "result_answer",
        "a result, then the answer",
        (_user("What is the weather in Oslo right now?"), _called("c1", "get_weather", {"city": "Oslo"}), _result("c1", "4 degrees, rain")),
        (_WEATHER,),
        _says("4", "rain", "four"),
    ),
    Task(
        "two_arguments",
        "one tool, two arguments",
        (_user("Write the text hello world to the file notes.txt."),),
        (_WRITE,),
        _calls(("write_file", {"path": "notes.txt", "content": "hello world"})),
    ),
    Task(
        "choice",
        "a choice among four tools",
        (_user("Read the file main.py."),),
        (_WEATHER, _READ, _SEARCH, _MAIL),
        _calls(("read_file", {"path": "main.py"})),
    ),
    Task(
        "no_tool",
        "no tool is needed",
        (_user("Say the word banana, nothing else."),),
        (_WEATHER,),
        _says("banana", "Banana", "BANANA"),
    ),
    Task(
        "result_second_call",
        "a result, then a second call",
        (
            _user("Read the file city.txt, then get the weather of the city that stands in it."),
            _called("c1", "read_file", {"path": "city.txt"}),
            _result("c1", "Bergen"),
        ),
        (_READ, _WEATHER),
        _calls(("get_weather", {"city": "Bergen"})),
    ),
    Task(
        "chinese",
        "a task in Chinese",
        (_user("北京现在的天气怎么样？"),),
        (_WEATHER,),
        lambda answer: min((_calls(("get_weather", {"city": city}))(answer) for city in ("北京", "Beijing", "北京市")), key=len),
    ),
    Task(
        "parallel",
        "two independent calls",
        (_user("What is the weather in Oslo and in Rome right now? Ask for both at once."),),
        (_WEATHER,),
        _calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})),
    ),
    Task(
        "long_code",
        "a long argument with code in it",
        (
            _user(
                'Write a Python program to the file fizz.py: a function fizzbuzz(n) that returns "Fizz", "Buzz", "FizzBuzz" or the number as '
                "text, and a loop that prints it for 1 to 100."
            ),
        ),
        (_WRITE, _READ),
        _writes_code("fizz.py", ("def fizzbuzz", "FizzBuzz", "for ", "print("), 6),
    ),
)
