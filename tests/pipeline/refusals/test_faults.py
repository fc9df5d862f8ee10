from pipeline.events import BlockSeen
from pipeline.refusals.faults import fault_of
from pipeline.verdicts import BlockOutcome

TEXT = '```json action\n{"tool": "x",\n "parameters": }\n```'


def block(**fields):
    return BlockSeen("json_action", **{"outcome": BlockOutcome.MALFORMED, "span": (10, 10 + len(TEXT)), "text": TEXT} | fields)


def test_the_place_is_told_in_lines_and_columns_of_the_block():
    at = TEXT.index("}")
    fault, text = fault_of([block(fault="value expected", fault_at=10 + at)], "")
    assert fault == "value expected (line 3, column 16 of the block, at })"
    assert text == TEXT


def test_a_fault_at_the_very_end_is_told():
    fault, _ = fault_of([block(fault="no end", fault_at=10 + len(TEXT))], "")
    assert fault.endswith("of the block, at its end)")


def test_without_words_the_outcome_speaks():
    assert fault_of([block(outcome=BlockOutcome.UNTERMINATED)], "") == ("it was not finished", TEXT)


def test_a_place_outside_the_quoted_text_is_left_out():
    assert fault_of([block(fault="x", fault_at=9999)], "")[0] == "x"


def test_no_block_no_fault():
    assert fault_of([], "") == ("", "")


def test_what_stands_behind_the_fault_is_taken_from_the_answer():
    read = TEXT[: TEXT.index("}")]
    answer = f"Let me see.\n{TEXT}\nDone."
    fault, written = fault_of([block(text=read, fault="value expected", fault_at=10 + len(read))], answer)
    assert fault == "value expected (line 3, column 16 of the block, at })"
    assert written == f"{TEXT}\nDone."


def test_the_end_of_a_line_is_told():
    fault, _ = fault_of([block(fault="comma expected", fault_at=10 + TEXT.index('"x",') + 4)], "")
    assert fault == "comma expected (line 2, column 14 of the block, at the end of a line)"
