import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.demonstrations.queries import keywords, queries


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who was the first president of Ghana?", "first president Ghana"),
        ('The band who released "Tinted Windows" had what job?', "band released Tinted Windows job"),
        ("where did Alan Turing's mother die", "Alan Turing mother die"),
        ("Which album by The Who came before Who Are You?", "album The Who came Who Are You"),
        ("When was O'Neill born, in 1888?", "O'Neill born 1888"),
        ("What is it?", ""),
        ("who's the man", "man"),
        ("¿Quién escribió «Rayuela»?", "Quién escribió Rayuela"),
        ("", ""),
    ],
)
def test_keywords_say_what_a_question_is_about(question: str, words: str) -> None:
    assert " ".join(keywords(question)) == words


@given(st.text())
def test_keywords_are_pieces_of_the_question_in_order(question: str) -> None:
    rest = question
    for word in keywords(question):
        assert word and not word.isspace()
        rest = rest[rest.index(word) + len(word) :]


def test_each_policy_has_its_queries() -> None:
    info = {
        "question": "Who employs Ada?",
        "golden_answers": ["Firm", "The Firm"],
        "supporting_titles": ["Ada", "Ada B"],
    }
    assert queries("titles", info) == ["Ada", "Ada B"]
    assert queries("answer", info) == ["Firm"]
    assert queries("keywords", info) == ["employs Ada"]


@pytest.mark.parametrize(
    ("policy", "change", "reason"),
    [
        ("titles", {"supporting_titles": []}, "no_titles"),
        ("keywords", {"question": "Who is it?"}, "no_keywords"),
        ("answer", {"golden_answers": ["No."]}, "yes_no_answer"),
        ("keywords", {"golden_answers": ["yes", "Yes"]}, "yes_no_answer"),
    ],
)
def test_a_policy_may_have_nothing_to_search_for(policy, change: dict, reason: str) -> None:
    info = {"question": "Who employs Ada?", "golden_answers": ["Firm"], "supporting_titles": ["Ada"]}
    assert queries(policy, {**info, **change}) == reason
