import pytest

from pipeline.refusals.notation import NotationError
from pipeline.refusals.phrases import Language, Phrase, capabilities, phrase_files, read
from pipeline.verdicts import RefusalKind

FILES = {file.language: file for file in phrase_files()}


def test_seven_languages_are_shipped():
    assert set(FILES) == {"en", "zh", "ja", "es", "fr", "de", "ru"}


@pytest.mark.parametrize("language", sorted(FILES))
def test_every_rule_has_an_id_of_its_own_and_says_where_it_comes_from(language):
    file = FILES[language]
    ids = [rule.id for rule in (*file.phrase, *file.guard, *file.opening)]
    assert len(ids) == len(set(ids))
    assert all(name.startswith(f"{language}-") for name in ids)
    assert all(phrase.source.strip() for phrase in file.phrase)
    assert all(guard.why.strip() for guard in file.guard)
    assert {phrase.kind for phrase in file.phrase} == {RefusalKind.HARD, RefusalKind.SOFT}


@pytest.mark.parametrize("language", sorted(FILES))
def test_what_rules_refer_to_exists(language):
    file = FILES[language]
    phrases = {phrase.id for phrase in file.phrase}
    for guard in file.guard:
        assert set(guard.cancels) | set(guard.spares) <= phrases, guard.id
    assert {phrase.needs for phrase in file.phrase} - {""} <= set(capabilities())


@pytest.mark.parametrize("language", sorted(FILES))
def test_every_class_is_used(language):
    file = FILES[language]
    text = " ".join(
        (*(p for rule in (*file.phrase, *file.guard, *file.opening) for p in rule.match), *(a for c in file.classes.values() for a in c))
    )
    words = set(text.replace("{", " ").replace("}", " ").replace("|", " ").replace("?", " ").split())
    assert set(file.classes) <= words


def test_a_new_phrase_needs_no_code():
    text = """
    language = "tlh"
    [[phrase]]
    id = "tlh-no-tools"
    kind = "hard"
    source = "made up for this test"
    match = ["jan pagh"]
    """
    language = Language(read(text))
    (rule,) = language.rules
    assert isinstance(rule, Phrase)
    assert rule.in_results


def test_a_bad_pattern_is_named():
    with pytest.raises(NotationError, match="x-bad"):
        Language(read('language = "x"\n[[phrase]]\nid = "x-bad"\nkind = "hard"\nsource = "s"\nmatch = ["~1 a"]'))
