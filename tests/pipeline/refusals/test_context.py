from pipeline.refusals.context import Context
from pipeline.turn import Tool


def test_tool_names_are_known_as_words():
    about = Context([Tool(name="read_file"), Tool(name="mcp__fs.list-dirs"), Tool(name="getWeather")])
    assert about.is_tool("read_file") and about.is_tool("dirs") and about.is_tool("getweather")
    assert not about.is_tool("file")


def test_topics_come_from_names_and_argument_names():
    about = Context([Tool(name="getWeather", parameters={"properties": {"city_name": {}}})])
    assert about.is_topic("weather") and about.is_topic("city")
    assert not about.is_topic("reading")


def test_capabilities_bring_their_topics():
    about = Context([Tool(name="run_shell")])
    assert about.can("commands") and about.can("files") and not about.can("web")
    assert about.is_topic("commands") and about.is_topic("directories")


def test_strange_schemas_do_no_harm():
    assert not Context([Tool(name="x", parameters={"properties": ["a"]})]).can("files")


def test_open_says_whether_a_refusal_is_possible():
    tools = [Tool(name="x")]
    assert Context(tools).open
    assert not Context([]).open
    assert Context(tools, results=True).open
    assert not Context(tools, results=True, failed=True).open
    assert Context(tools, failed=True).open
