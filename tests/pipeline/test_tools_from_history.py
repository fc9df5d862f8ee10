"""Tools rebuilt from the calls of a conversation (N2)."""

from pipeline.tools_from_history import DESCRIPTION, rebuild
from pipeline.turn import Arguments, Call, Message, Result, Role, Text, ToolKind


def history(*calls):
    return [Message(Role.USER, (Text("u"),)), *(Message(Role.ASSISTANT, (call,)) for call in calls)]


def call(name, raw, **more):
    return Call("c", name, Arguments(raw), **more)


def test_names_keys_and_types_in_the_order_of_the_first_calls():
    raw = '{"path":"a","lines":[1,2],"force":true,"depth":3,"ratio":0.5,"extra":{"a":1},"note":null}'
    look, ping = rebuild(history(call("look", raw), call("ping", ""), call("look", raw)))
    assert (look.name, ping.name, look.description) == ("look", "ping", DESCRIPTION)
    assert {key: schema["type"] for key, schema in look.parameters["properties"].items()} == {
        "path": "string", "lines": "array", "force": "boolean", "depth": "integer", "ratio": "number", "extra": "object", "note": "null",
    }  # fmt: skip
    assert look.parameters["required"] == ["path", "lines", "force", "depth", "ratio", "extra", "note"]
    assert ping.parameters == {"type": "object", "properties": {}}


def test_only_what_every_call_had_is_required():
    (tool,) = rebuild(history(call("a", {"x": 1, "y": 2}), call("a", {"x": 1, "z": 3})))
    assert tool.parameters["required"] == ["x"]
    assert list(tool.parameters["properties"]) == ["x", "y", "z"]


def test_several_types_of_one_key_are_all_legal():
    (tool,) = rebuild(history(call("a", {"x": 1, "y": 1}), call("a", {"x": "1", "y": 1.5})))
    assert tool.parameters["properties"] == {"x": {"type": ["integer", "string"]}, "y": {"type": "number"}}


def test_poison_gives_the_name_and_nothing_else():
    (tool,) = rebuild(history(call("a", '{"x": ')))
    assert tool.parameters == {"type": "object", "properties": {}}
    (mixed,) = rebuild(history(call("a", '{"x": '), call("a", {"x": 1})))
    assert mixed.parameters["required"] == ["x"]


def test_custom_and_namespaced_calls_come_back_as_such():
    patch, spawn = rebuild(
        history(call("patch", {"input": "***"}, kind=ToolKind.CUSTOM), call("agents.spawn", "{}", namespace="agents")),
    )
    assert (patch.kind, patch.parameters["required"]) == (ToolKind.CUSTOM, ["input"])
    assert (spawn.name, spawn.namespace) == ("agents.spawn", "agents")
    assert spawn.native["function"]["name"] == "agents.spawn"


def test_the_same_history_gives_the_same_tools_and_results_give_none():
    messages = history(call("b", {"x": 1}), call("a", {"y": "z"}))
    assert rebuild(messages) == rebuild(messages)
    assert rebuild([Message(Role.USER, (Result("c", (Text("x"),), "look"),))]) == ()
    assert rebuild([]) == ()
