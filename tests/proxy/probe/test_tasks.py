import pytest

from proxy.probe.tasks import TASKS, Answer

BY_ID = {task.id: task for task in TASKS}
FIZZ = (
    "def fizzbuzz(n):\n    if n % 15 == 0:\n        return 'FizzBuzz'\n    if n % 3 == 0:\n        return 'Fizz'\n"
    "    if n % 5 == 0:\n        return 'Buzz'\n    return str(n)\n\nfor n in range(1, 101):\n    print(fizzbuzz(n))\n"
)


def weather(city):
    return ("get_weather", {"city": city})


RIGHT = {
    "single": Answer("", (weather("oslo "),)),
    "result_answer": Answer("It is 4 degrees and raining.", ()),
    "two_arguments": Answer("", (("write_file", {"path": "notes.txt", "content": "hello world"}),)),
    "choice": Answer("", (("read_file", {"path": "main.py"}),)),
    "no_tool": Answer("banana", ()),
    "result_second_call": Answer("", (weather("Bergen"),)),
    "chinese": Answer("", (weather("北京"),)),
    "parallel": Answer("", (weather("Rome"), weather("Oslo"))),
    "long_code": Answer("", (("write_file", {"path": "fizz.py", "content": FIZZ}),)),
}

WRONG = [
    ("single", Answer("It rains in Oslo.", ()), "no call"),
    ("single", Answer("", (weather("Rome"),)), "other arguments"),
    ("single", Answer("", (("read_file", {}),)), "another tool"),
    ("single", Answer("", (weather("Oslo"), weather("Oslo"))), "2 calls instead of 1"),
    ("single", Answer("", (("get_weather", {"city": "Oslo", "unit": "C"}),)), "other arguments"),
    ("result_answer", Answer("", (weather("Oslo"),)), "a call that was not needed"),
    ("result_answer", Answer(" ", ()), "nothing"),
    ("result_answer", Answer("I do not know.", ()), "an answer without the point"),
    ("chinese", Answer("", (weather("上海"),)), "other arguments"),
    ("parallel", Answer("", (weather("Oslo"),)), "1 calls instead of 2"),
    ("long_code", Answer("", ()), "no call"),
    (
        "long_code",
        Answer("", (("write_file", {"path": "fizz.py", "content": FIZZ.replace("\n", " ")}),)),
        "code on fewer lines than it has",
    ),
    ("long_code", Answer("", (("write_file", {"path": "fizz.py", "content": FIZZ.replace("print", "show")}),)), "code with parts missing"),
]


def test_every_task_has_its_right_answer_here():
    assert set(RIGHT) == set(BY_ID)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_right_answers_are_right(name):
    assert BY_ID[name].fault(RIGHT[name]) == ""


@pytest.mark.parametrize(("name", "answer", "fault"), WRONG)
def test_wrong_answers_say_why(name, answer, fault):
    assert BY_ID[name].fault(answer) == fault
