"""`toolgraft probe` against a scripted HTTP upstream that reads its prompt."""

import json

import pytest
from click.testing import CliRunner

from pipeline.dialects import registry
from pipeline.turn import Arguments, Call
from proxy.__main__ import main
from proxy.config import load
from proxy.probe.tasks import TASKS
from tests.support.scripted_upstream import ScriptedUpstream

KNOWN = {
    "What is the weather in Oslo right now?": [("get_weather", {"city": "Oslo"})],
    "Write the text hello world": [("write_file", {"path": "notes.txt", "content": "hello world"})],
    "Read the file main.py.": [("read_file", {"path": "main.py"})],
    "then get the weather of the city": [("get_weather", {"city": "Bergen"})],
    "北京现在": [("get_weather", {"city": "北京"})],
    "in Oslo and in Rome": [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})],
}


def model(*, examples=0, dialect=None):
    """A text model that knows the tasks, but calls only behind so many assistant messages (two an example), and only in one dialect."""

    def answer(seen):
        messages = seen.json["messages"]
        said = "\n".join(message["content"] for message in messages)
        system = messages[0]["content"]
        taught = "dsml" if "DSML" in system else "json_action"
        last = messages[-1]["content"]
        if "4 degrees" in last:
            return "It is 4 degrees and rains."
        if "banana" in said:
            return "banana"
        task = next((calls for start, calls in KNOWN.items() if start in said), None)
        shown = sum(message["role"] == "assistant" for message in messages)
        if task is None or shown < examples or dialect not in (None, taught):
            return "I would look that up."
        calls = [Call(f"c{at}", name, Arguments(arguments)) for at, (name, arguments) in enumerate(task)]
        return registry.load((taught,))[0].render_calls(calls)

    return answer


def run(chooser, *arguments, environment=None):
    with ScriptedUpstream(chooser).in_thread() as upstream:
        result = CliRunner().invoke(main, ["probe", "--upstream", upstream.url, "--model", "m", *arguments], env=environment)
    return result, upstream


def found(*arguments, chooser):
    result, upstream = run(chooser, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), upstream


def test_a_capable_model_keeps_the_default():
    report, upstream = found(chooser=model())
    default = report["variants"][0]
    assert report["recommended"] == default["name"] == "default"
    assert [one["task"] for one in default["tasks"] if not one["right"]] == ["long_code"]
    assert report["generations"] == len(upstream.seen) <= 60
    assert default["input_tokens"] > 0 and default["output_tokens"] > 0


def test_every_request_is_one_text_request():
    _, upstream = found("--budget", "12", chooser=model())
    assert len(upstream.seen) == 12
    for seen in upstream.seen:
        assert "tools" not in seen.json
        assert seen.json["model"] == "m"


def test_a_weak_model_is_given_examples():
    report, _ = found(chooser=model(examples=6))
    assert report["recommended"] == "3 example turns"
    assert "example_turns = 3" in report["config"]


def test_a_model_with_a_dialect_of_its_own_is_taught_that_one():
    report, _ = found(chooser=model(dialect="dsml"))
    assert report["recommended"] == "dialect dsml"
    assert 'contract = "dsml"' in report["config"]


def test_the_snippet_is_a_configuration(tmp_path):
    result, upstream = run(model(examples=6), "--json", "--key-env", "PROBE_TEST_KEY", environment={"PROBE_TEST_KEY": "sk-probe-secret"})
    report = json.loads(result.stdout)
    file = tmp_path / "toolgraft.toml"
    file.write_text(report["config"])
    config = load(file, {"PROBE_TEST_KEY": "sk-probe-secret"})
    assert config.routes[0].settings.example_turns == 3
    assert config.routes[0].model == "m"
    assert upstream.seen[0].headers["authorization"] == "Bearer sk-probe-secret"
    assert "sk-probe-secret" not in result.output


def test_people_get_tables_and_the_snippet():
    result, _ = run(model(), "--budget", "9")
    assert result.exit_code == 0
    assert "8/9" in result.output
    assert "[[routes]]" in result.output
    assert all(task.id in result.output for task in TASKS)
    assert "not asked" in result.output


def test_an_upstream_that_never_answers_is_an_error():
    result = CliRunner().invoke(main, ["probe", "--upstream", "http://127.0.0.1:9/v1", "--model", "m", "--budget", "3"])
    assert result.exit_code == 1
    assert "the upstream never answered" in result.output


def test_an_upstream_that_answers_with_an_error_is_told():
    result, _ = run({"status": 401, "body": {"error": {"message": "no key"}}}, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["variants"][0]["right"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--upstream", "ftp://x", "--model", "m"], "--upstream"),
        (["--upstream", "http://127.0.0.1:9/v1", "--model", "m", "--key-env", "NO_SUCH_VARIABLE_HERE"], "NO_SUCH_VARIABLE_HERE"),
        (["--model", "m"], "--upstream"),
    ],
)
def test_bad_options_are_named(arguments, said):
    result = CliRunner().invoke(main, ["probe", *arguments])
    assert result.exit_code == 2
    assert said in result.output
