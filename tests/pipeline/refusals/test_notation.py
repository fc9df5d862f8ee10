import pytest

from pipeline.refusals.notation import Alive, Machine, Notation, NotationError, Run
from pipeline.refusals.words import fold

CLASSES = {"SELF": ["i", "we"], "LACK": ["do not {have|own}", "lack"], "THING": ["tools", "file system", "werkzeug*"], "LOOP": ["LOOP"]}


def no(_word):
    return False


def matches(pattern, text, *, tool=no, topic=no):
    machine = Machine()
    for row in Notation(CLASSES, lambda part: fold(part, {})).rows(pattern):
        machine.add(row, 7)
    machine.finish()
    run = Run(machine)
    found = 0
    for word in [*text.split(), "."]:
        found |= run.step(word, tool, topic)
    assert set(run.owners(found)) <= {7}
    return bool(found)


@pytest.mark.parametrize(
    ("pattern", "yes", "no_"),
    [
        ("no tools", "there are no tools here", "no more tools"),
        ("SELF LACK THING", "i do not have tools", "they do not have tools"),
        ("SELF LACK THING", "we lack file system", "we lack file and system"),
        ("THING", "die werkzeugkiste", "zeug"),
        ("no {free|good}? tools", "no good tools", "no bad tools"),
        ("no {very good|LACK}? tools", "no very good tools", "no very tools"),
        ("no ~2 tools", "no a b tools", "no a b c tools"),
        ("no ~2 tools", "no tools", "no , tools"),
        ("no ~~2 tools", "no a , tools", "no a , b tools"),
        ("^ no tools", "a , no tools", "a no tools"),
        ("^^ no tools", "no tools", "a , no tools"),
        ("^ ~1 tools", "a tools", "a b tools"),
        ("tools $", "no tools", "tools here"),
        ("tools $", "tools , yes", "tools yes"),
        ("no , tools", "no , tools", "no tools"),
        ("no tools ~3", "no tools", "no"),
        ("open @file", "open a.txt", "open file"),
        ("{a|b {c|d}} e", "b d e", "b e"),
        ("*ly gone tools", "sadly gone tools", "lying gone tools"),
        ("{a *ly? b|c} e", "a really b e", "a real b e"),
    ],
)
def test_a_pattern_matches_what_it_says(pattern, yes, no_):
    assert matches(pattern, yes)
    assert not matches(pattern, no_)


def test_tools_and_topics_are_asked_of_the_context():
    assert matches("use @tool", "use read_file", tool=lambda word: word == "read_file")
    assert not matches("use @tool", "use read_file", tool=no)
    assert matches("tool for @topic", "tool for reading", topic=lambda word: word == "reading")


@pytest.mark.parametrize("pattern", ["", "{a", "a}", "NOPE b", "LOOP", "~3 a", "a? b?", "!", "a ^ b", "*", "*ly*"])
def test_bad_patterns_are_refused_by_name(pattern):
    with pytest.raises(NotationError):
        matches(pattern, "a")


def test_a_pattern_that_multiplies_out_too_far_is_refused():
    with pytest.raises(NotationError, match="rows"):
        Notation({"W": [f"a{i} ~1 b" for i in range(40)]}, lambda part: fold(part, {})).rows("W W W W")


def test_rows_of_words_alone_cost_no_states_of_their_own():
    few, many = Machine(), Machine()
    for machine, classes in ((few, {"W": ["a"]}), (many, {"W": ["a", "b {c|d}? e?", "f {g|h i} *ly"]})):
        for row in Notation(classes, lambda part: fold(part, {})).rows("W tools"):
            machine.add(row, 0)
    assert many.size == few.size


def test_alive_while_a_pattern_may_still_end():
    machine = Machine()
    states = 0
    for row in Notation({}, lambda part: fold(part, {})).rows("no ~1 big tools"):
        states |= machine.add(row, 0)
    machine.finish()
    run = Run(machine)
    seen = []
    for word in ("so", "no", "very", "nice"):
        run.step(word, no, no)
        seen.append(run.alive(states))
    assert seen == [Alive.NO, Alive.BEGUN, Alive.BEGUN, Alive.NO]
    run.restart()
    run.step("one", no, no)
    assert run.alive(states) is Alive.NO


def test_the_first_words_of_an_element_may_become_one():
    machine = Machine()
    states = machine.add(Notation({}, lambda part: fold(part, {})).rows("{of course|sure} tools")[0], 0)
    machine.finish()
    run = Run(machine)
    run.step("of", no, no)
    assert run.alive(states) is Alive.PERHAPS
    run.step("course", no, no)
    assert run.alive(states) is Alive.BEGUN


def test_a_restart_forgets_the_sentence():
    machine = Machine()
    for row in Notation({}, lambda part: fold(part, {})).rows("no tools"):
        machine.add(row, 0)
    machine.finish()
    run = Run(machine)
    run.step("no", no, no)
    run.restart()
    assert not run.step("tools", no, no)
