import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.qa.comparing import comparable, question_key


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('Who sang "Let It Go"?', "Who sang “Let It Go”?"),
        ('Who sang "Let It Go"?', "who sang «Let It Go»"),
        ("the wife's dog", "wife’s dog"),
        ("a well-known song", "A well known song"),
        ("a well-known song", "a well–known song"),
        ("and then...", "and then…"),
        ("J.R.R. Tolkien", "J. R. R. Tolkien"),
        ("the U.S. army", "US army"),
        ("Beyoncé's café", "Beyonce\u0301's cafe\u0301"),
        ("Beyoncé's café", "Beyonces cafe"),
        ("ＦＵＬＬ width", "full width"),
        ("Straße", "STRASSE"),
    ],
)
def test_writing_makes_no_difference(one, two):
    assert question_key(one) == question_key(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [("who is it", "who was it"), ("in 1914", "in 1918"), ("?", "!"), ("The?", "?"), ("東京はどこ", "京都はどこ")],
)
def test_words_do(one, two):
    assert question_key(one) != question_key(two)


def test_words_of_a_text():
    assert comparable("The wife's  well-known (third) Übung, in A-major!") == "wifes well known third ubung in major"
    assert comparable("?!") == comparable("The") == ""


@given(st.text())
def test_it_is_its_own_form(text):
    assert comparable(comparable(text)) == comparable(text)


@given(st.text(st.characters(codec="ascii")))
def test_texts_of_ascii_are_treated_as_others(text):
    assert comparable(f"{text} é") == f"{comparable(text)} e".strip()
