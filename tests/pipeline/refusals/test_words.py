import pytest

from pipeline.refusals.words import ASK, COMMA, END, FENCE, OPAQUE, UNQUOTE, Words, fold

CONTRACTIONS = {"can't": ("can", "not"), "cannot": ("can", "not"), "dont": ("do", "not")}


def words(text):
    reader = Words(CONTRACTIONS)
    return [word for word, _ in reader.feed(text) + reader.close()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't", ["i", "do", "not"]),
        ("I DON’T", ["i", "do", "not"]),
        ("I donʼt", ["i", "do", "not"]),
        ("I dont", ["i", "do", "not"]),
        ("I can't, I cannot", ["i", "can", "not", COMMA, "i", "can", "not"]),
        ("I’m unable", ["i", "am", "unable"]),
        ("we'll we'd they've", ["we", "will", "we", "would", "they", "have"]),
        ("je n'ai pas", ["je", "n", "ai", "pas"]),
        ("ＦＵＬＬ ｗｉｄｔｈ", ["full", "width"]),
        ("Größe accès ещё", ["grosse", "acces", "еще"]),
        ("a.txt and 3.5", ["a.txt", "and", "3.5"]),
        ("text-based real\u00adtime", ["text", "based", "realtime"]),
        ("read_file _emphasis_ **bold**", ["read_file", "emphasis", "bold"]),
        ("我没有工具", ["我", "没", "有", "工", "具"]),
        ("ﾂｰﾙ ガ", ["ツ", "ー", "ル", "ガ"]),
        ("AI助手", ["ai", "助", "手"]),
        ("İ", ["i"]),
    ],
)
def test_words_are_folded(text, expected):
    assert words(text) == [*expected, END]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two", ["one", END, "two", END]),
        ("One?! Two!", ["one", ASK, "two", END, END]),
        ("一。二？", ["一", END, "二", ASK, END]),
        ("one\ntwo", ["one", END, "two", END]),
        ("one... two", ["one", END, "two", END]),
        ("one… two", ["one", END, "two", END]),
        ("e.g. two", ["e.g", "two", END]),
        ("one, two; (three) – four", ["one", COMMA, "two", COMMA, COMMA, "three", COMMA, COMMA, "four", END]),
        ("one - two", ["one", COMMA, "two", END]),
        ("- one", ["one", END]),
        ("see a.txt.", ["see", "a.txt", END]),
    ],
)
def test_sentences_and_clauses_end(text, expected):
    got = words(text)
    assert got[: len(expected)] == expected
    assert got[len(expected) :] in ([], [END])


def test_a_long_quote_is_opaque_and_a_short_one_is_not():
    assert words('it says "I have no tools at all" there') == ["it", "says", OPAQUE, "there", END]
    assert words("the “read_file” tool") == ["the", "read_file", "tool", END]
    assert words("er sagt „ich habe keinen Zugriff auf“ dort") == ["er", "sagt", OPAQUE, "dort", END]
    assert words("他说「我没有任何工具」了") == ["他", "说", OPAQUE, "了", END]


def test_code_spans_are_quotes_and_names_in_them_stay_whole():
    assert words("the `read-file` tool") == ["the", "read-file", "tool", END]
    assert words("prints `I have no tools here` twice") == ["prints", OPAQUE, "twice", END]


def test_a_quote_ends_with_its_line():
    assert words('one "two three four five\nsix') == ["one", OPAQUE, END, "six", END]


def test_an_answer_quoted_as_a_whole_speaks_for_itself():
    assert words('"I have no tools."')[:4] == ["i", "have", "no", "tools"]


def test_a_fence_is_told():
    assert words("see:\n```py\nx\n```") == ["see", COMMA, END, FENCE, "py", END, "x", END, FENCE, END]


def test_a_monstrous_word_is_opaque():
    assert words("a" * 1000) == [OPAQUE, END]


def test_positions_count_characters_read():
    reader = Words({})
    assert reader.feed("ab cd ") == [("ab", 3), ("cd", 6)]
    assert reader.position == 6


def test_fold_gives_words_without_an_end():
    assert fold("I can't", CONTRACTIONS) == ["i", "can", "not"]


def test_the_end_of_a_quotation_that_the_answer_begins_with_is_told():
    assert words('"no" he said') == ["no", UNQUOTE, "he", "said", END]
    assert words("„nein“ sagt er") == ["nein", UNQUOTE, "sagt", "er", END]
