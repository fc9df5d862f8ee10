"""The classifier on its case files, and rule by rule.

`refusals.jsonl` was measured once with patterns written from the kinds alone: 20 of 31 refusals, 1 of 35 look-alikes flagged. The others
were written after the kinds found missing so far had been added, in wordings meant to be unlike the patterns; at their first measurement:

    refusals_unseen.jsonl         74 of 101 refusals, 1 of  75 look-alikes flagged
    refusals_unseen_more.jsonl    38 of  49,          0 of  45
    refusals_unseen_last.jsonl    26 of  34,          1 of  20
    refusals_unseen_plain.jsonl   31 of  32,          0 of  17    (wordings that models commonly use)
    refusals_blind_1.jsonl        93 of 137,          2 of 137    (odder wordings on purpose, and less usual sentence orders)
    refusals_blind_2.jsonl       102 of 136,          6 of 139    (idioms, fronted objects, questions behind denials)
    refusals_blind_3.jsonl       126 of 140,          5 of 137    (common wordings)
    refusals_blind_4.jsonl        13 of  21,          5 of 134    (mostly look-alikes near to the patterns)
    refusals_blind_5.jsonl        49 of  55,          3 of  55
    refusals_blind_6.jsonl        21 of  25,          4 of 117
    refusals_blind_7.jsonl        32 of  37,          2 of  54

Every improvement since added kinds, never sentences.
"""

from statistics import median

import pytest

from pipeline.refusals.classifier import CONFIRM, GRACE, Classifier
from pipeline.verdicts import Hold, RefusalKind
from tests.support.refusal_cases import LIMIT, cases, context, context_of, offered, scanned

SHARED = cases("refusals.jsonl")
FILES = (
    "refusals_unseen.jsonl",
    "refusals_unseen_more.jsonl",
    "refusals_unseen_last.jsonl",
    "refusals_unseen_plain.jsonl",
    "refusals_reach_tools.jsonl",
)
BLIND = {
    "refusals_blind_1.jsonl": 0,
    "refusals_blind_2.jsonl": 0,
    "refusals_blind_3.jsonl": 0,
    "refusals_blind_4.jsonl": 1,
    "refusals_blind_5.jsonl": 3,
    "refusals_blind_6.jsonl": 0,
    "refusals_blind_7.jsonl": 1,
}
"""Files written before the patterns that now read them, and how many of their refusals are still missed."""
STILL_FLAGGED = ["I can't look at the log, but I can tell you whether it rains there."]
"""True where only a weather tool is offered: what a tool can reach is not told from its name with enough certainty to let this through."""
UNSEEN = [case for name in FILES for case in cases(name)]


def hit(text, about=None, **options):
    return Classifier().classify(text, about or offered(), LIMIT, **options)


def wrong(case):
    return (scanned(case["text"], context_of(case)).hit is not None) != case["is_refusal"]


def test_shared_cases_are_all_right():
    assert [case["id"] for case in SHARED if wrong(case)] == []


def test_unseen_texts_do_as_well():
    assert len(UNSEEN) >= 120
    missed = [case["id"] for case in UNSEEN if wrong(case) and case["is_refusal"]]
    assert [case["id"] for case in UNSEEN if wrong(case) and not case["is_refusal"]] == []
    # it tells what the user could do, with no word of a limit: an answer as well as a deflection
    assert missed == ["w019"]


@pytest.mark.parametrize(("name", "still_missed"), BLIND.items())
def test_texts_written_blind_do_as_well(name, still_missed):
    some = cases(name)
    assert [case["text"] for case in some if wrong(case) and not case["is_refusal"] and case["text"] not in STILL_FLAGGED] == []
    missed = [case["text"] for case in some if wrong(case) and case["is_refusal"]]
    assert len(missed) <= still_missed, missed


@pytest.mark.parametrize("some", [SHARED, UNSEEN])
def test_half_of_the_look_alikes_are_released_within_forty_characters(some):
    held = [scanned(case["text"], context_of(case)).read for case in some if not case["is_refusal"]]
    assert median(held) <= 40


def test_an_ordinary_answer_is_released_within_its_first_words():
    scan = Classifier().scan(offered(), LIMIT)
    assert scan.feed("The quarterly report shows that revenue grew") is Hold.RELEASE
    assert scan.read <= GRACE + len(" shows that ")


def test_a_refusal_is_acted_on_before_its_end():
    text = "I don't have access to any tools. " + "Tools are what people in workshops use to build things of all sorts. " * 10
    scan = Classifier().scan(offered(), LIMIT)
    assert scan.feed(text) is Hold.REFUSE
    assert scan.read <= len("I don't have access to any tools. ") + CONFIRM + len("workshops ")
    assert (scan.hit.kind, scan.hit.language, scan.hit.phrase) == (RefusalKind.HARD, "en", "en-no-tools")


def test_the_bound_ends_the_hold_one_way_or_the_other():
    polite = "I understand that you would like me to " + "and " * 200
    assert Classifier().scan(offered(), 100).feed(polite) is Hold.RELEASE
    assert Classifier().scan(offered(), 60).feed("I'm sorry, I can't access your file system and therefore " + "and " * 50) is Hold.REFUSE


def test_the_opener_of_structured_text_releases_at_once():
    for text in ("| a | b |", "# Result", '{"a": 1}', "```py\nprint()"):
        assert Classifier().scan(offered(), LIMIT).feed(text) is Hold.RELEASE


def test_a_fence_inside_does_not_hide_a_refusal_before_it():
    assert hit("I can't run commands here, but you can:\n```bash\nls\n```\n")
    assert hit("You could write:\n```python\n# I cannot access files\n```\n") is None


# --- context before wording (R2) ---

REFUSAL = "I don't have access to any tools."


def test_without_tools_the_statement_is_true():
    assert hit(REFUSAL)
    assert hit(REFUSAL, context()) is None


def test_after_a_failed_result_nothing_is_pressed():
    assert hit(REFUSAL, offered(results=True))
    assert hit(REFUSAL, offered(results=True, failed=True)) is None


def test_after_results_only_a_hard_denial_at_the_beginning_counts():
    soft = "I can only provide guidance in text form."
    assert hit(soft).kind is RefusalKind.SOFT
    assert hit(soft, offered(results=True)) is None
    assert hit(f"All four tests pass. {REFUSAL}", offered(results=True)) is None


def test_asking_for_what_a_tool_can_fetch_needs_such_a_tool():
    text = "Please paste the contents of main.py."
    assert hit(text, context("read_file"))
    assert hit(text, context("get_weather")) is None


def test_denying_a_kind_of_tool_is_a_refusal_only_where_that_kind_was_offered():
    assert hit("I don't have a tool for reading files.", context("read_file"))
    assert hit("I don't have a tool for reading files.", context("get_weather")) is None
    assert hit("I can't call get_weather.", context("get_weather"))
    assert hit("There is no tool called send_mail.", context("read_file")) is None


# --- guards ---


@pytest.mark.parametrize(
    "text",
    [
        "I can't see the file from here, so I'll read it with read_file.",
        "I don't have access to your files yet. Let me open the directory first.",
        "我看不到这个文件，我来用 read_file 读取它。",
        "Ich kann nicht auf die Datei zugreifen. Soll ich das Verzeichnis durchsuchen?",
    ],
)
def test_going_on_to_act_takes_a_hit_back(text):
    assert hit(text) is None


def test_going_on_once_the_user_delivered_does_not():
    assert hit("Please paste the file contents here, and I'll take a look.")


@pytest.mark.parametrize(
    "text",
    [
        "If I can't access the file system, I'll say so.",
        "You said I can't run code, but the tests are green.",
        'The log reads "I do not have access to any tools" twice.',
        "I could not open the file because it does not exist.",
        "I can't run commands without your approval.",
        "I can't help you read other people's mail.",
        "I have no questions about the tools.",
        "Here is the letter:\n\nDear Bob,\nI have no tools any more.",
        "I can not only read files but also write them.",
    ],
)
def test_look_alikes_are_let_through(text):
    assert hit(text, patient=True) is None


def test_a_question_is_no_denial_but_may_hand_the_work_back():
    assert hit("Is it that I have no tools?", patient=True) is None
    assert hit("Could you paste the contents of the file?")


def test_distrust_of_the_contract_asks_for_the_neutral_variant():
    found = hit("The system message looks like a prompt injection attempt.")
    assert found.neutral
    assert not hit(REFUSAL).neutral


@pytest.mark.parametrize(
    "text",
    [
        "I don't have access to your files, which one did you mean?",
        "我无法访问您的文件，您指的是哪一个？",
        "No tengo acceso a tus archivos, ¿cuál quieres decir?",
    ],
)
def test_a_denial_before_a_question_is_still_a_denial(text):
    assert hit(text)


@pytest.mark.parametrize("text", ["I have no tools, right?", "Is it that I can't read files, or that I won't?", "我没有工具，对吗？"])
def test_a_question_about_the_denial_is_none(text):
    assert hit(text, patient=True) is None


@pytest.mark.parametrize(
    "text",
    [
        '"I have no tools," the old bot used to say.',
        "“我无法访问您的文件”是旧版机器人的常见回复。",
        '"I can\'t run commands." That is what it said.',
    ],
)
def test_a_quotation_that_the_answer_begins_with_is_not_its_own_word(text):
    assert hit(text, patient=True) is None


def test_an_answer_that_is_quoted_as_a_whole_speaks_for_itself():
    assert hit("“I can't access your files.”")


# --- variants of writing (R3) ---


@pytest.mark.parametrize(
    "text",
    [
        "I don’t have access to any tools.",
        "I dont have access to any tools.",
        "I DO NOT HAVE ACCESS TO ANY TOOLS.",
        "**I don't have access to any _tools_.**",
        "Ｉ do not have access to any tools．",
        '"I don\'t have access to any tools."',
        "I don't have access  to\tany tools!",
        "I'm afraid, Dave, I don't have access to any tools",
    ],
)
def test_spelling_does_not_matter(text):
    assert hit(text)


def test_a_patient_scan_reads_past_what_releases_a_stream():
    text = "The weather report for the city of Oslo would be nice. Sadly I have no tools."
    assert hit(text) is None
    assert hit(text, patient=True).phrase == "en-no-tools"
