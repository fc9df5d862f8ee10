from pipeline.events import BlockSeen
from pipeline.refusals.faults import fault_of
from pipeline.verdicts import BlockOutcome

TEXT = '```json action\n{"tool": "x",\n "parameters": }\n```'


def block(**fields):
    return BlockSeen("json_action", **{"outcome": BlockOutcome.MALFORMED, "span": (10, 10 + len(TEXT)), "text": TEXT} | fields)


def test_the_place_is_told_in_lines_and_columns_of_the_block():
    at = TEXT.index("}")
    fault, text = fault_of([block(fault="value expected", fault_at=10 + at)])
    assert fault == "value expected (line 3, column 16 of the block, near })"
    assert text == TEXT


def test_a_fault_at_the_very_end_is_told():
    fault, _ = fault_of([block(fault="no end", fault_at=10 + len(TEXT))])
    assert fault.endswith("of the block, at its end)")


def test_without_words_the_outcome_speaks():
    assert fault_of([block(outcome=BlockOutcome.UNTERMINATED)]) == ("it was not finished", TEXT)


def test_a_place_outside_the_quoted_text_is_left_out():
    assert fault_of([block(fault="x", fault_at=9999)])[0] == "x"


def test_no_block_no_fault():
    assert fault_of([]) == ("", "")
