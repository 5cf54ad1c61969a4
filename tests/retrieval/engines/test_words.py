import pytest
from bm25s.stopwords import STOPWORDS_EN

from tasks.retrieval.engines.words import STOP_WORDS, Words


def test_words_are_folded_and_single_characters_count() -> None:
    assert Words(None)("The Ünïted X 8!") == ["united", "x", "8"]


def test_stop_words_are_those_of_bm25s() -> None:
    assert frozenset(STOPWORDS_EN) == STOP_WORDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Running runners ran", ["run", "runner", "ran"]),
        ("Harvey Pekar's comics", ["harvey", "pekar", "comic"]),
        ("Was it Ms. S? These cafés", ["ms", "cafe"]),
        ("no ifs or ons", ["if", "on"]),  # stop words are what is said, not what is left of it
    ],
)
def test_english_words_are_stemmed(text: str, expected: list[str]) -> None:
    assert Words("english")(text) == expected


def test_an_s_counts_where_nothing_is_stemmed() -> None:
    assert Words(None)("Pekar's") == ["pekar", "s"]
