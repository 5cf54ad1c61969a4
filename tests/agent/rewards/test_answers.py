import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards import cover_em, exact_match, f1, holds_answer, matchable, normalise


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("U.S.", "us"),
        ("The  Big\tTown!", "big town"),
        ("an answer, a man", "answer man"),
        ("theatre and Anna", "theatre and anna"),
        ("A.", ""),  # punctuation goes first, so what is left is the article
        ("state-of-the-art", "stateoftheart"),
        ("Café №5", "café №5"),
    ],
)
def test_normalise_as_squad_does(text: str, normalised: str) -> None:
    assert normalise(text) == normalised


def test_exact_match_takes_any_golden_answer() -> None:
    assert exact_match("the u.s.", ["America", "US"]) == 1.0
    assert exact_match("US of America", ["America", "US"]) == 0.0
    assert exact_match(None, [""]) == 0.0


@pytest.mark.parametrize("golden", ["*", "The", "?!", " ", ""])
@pytest.mark.parametrize("answer", ["", "*", "the", " ", "an ..."])
def test_a_golden_answer_without_a_word_matches_nothing(answer: str, golden: str) -> None:
    assert exact_match(answer, [golden]) == f1(answer, [golden]) == 0.0
    assert exact_match(answer, ["Oka", golden]) == 0.0
    assert exact_match("oka", [golden, "Oka"]) == f1("oka", [golden, "Oka"]) == 1.0


@given(st.lists(st.text() | st.text("atheANTHE .,?-_5ß"), max_size=3))
def test_an_answer_is_matchable_just_when_it_matches_itself(golden: list[str]) -> None:
    assert matchable(golden) == any(exact_match(one, golden) for one in golden)


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("Made in the U.S.", "us", True),
        ("made in us", "The U.S.", True),
        ("a bus house", "us", False),
        ("the house", "the", False),
        ("", "?", False),
    ],
)
def test_answers_are_held_as_whole_words(text: str, answer: str, held: bool) -> None:
    assert holds_answer(normalise(text), answer) is held


@pytest.mark.parametrize(
    ("answer", "golden", "value"),
    [
        ("the big town", ["Big Town"], 1.0),
        ("big", ["Big Town"], 2 / 3),  # precision 1, recall 1/2
        ("big old town", ["Big Town"], 4 / 5),  # precision 2/3, recall 1
        ("big big", ["big town"], 1 / 2),  # a repeated word counts once
        ("big town", ["big", "big town hall"], 4 / 5),  # the best golden answer counts
        ("village", ["town"], 0.0),
        ("", ["town"], 0.0),
        (None, ["town"], 0.0),
    ],
)
def test_f1_by_hand(answer: str | None, golden: list[str], value: float) -> None:
    assert f1(answer, golden) == pytest.approx(value)


@pytest.mark.parametrize(
    ("answer", "golden", "value"),
    [
        ("It was made in the U.S., I think", ["America", "US"], 1.0),
        ("US", ["US"], 1.0),
        ("a bus house", ["us"], 0.0),  # any substring would do for Search-R1's subem_check
        ("Big old Town", ["Big Town"], 0.0),
        ("anything", ["The"], 0.0),
        ("", ["town"], 0.0),
        (None, ["town"], 0.0),
    ],
)
def test_cover_em_by_hand(answer: str | None, golden: list[str], value: float) -> None:
    assert cover_em(answer, golden) == value


@given(st.text() | st.text("ab ."), st.lists(st.text() | st.text("ab ."), max_size=3))
def test_answer_scores_are_ordered(answer: str, golden: list[str]) -> None:
    # An exact match is whole in every score; each score is in [0, 1].
    em, token, cover = exact_match(answer, golden), f1(answer, golden), cover_em(answer, golden)
    assert 0.0 <= em <= min(token, cover) and max(token, cover) <= 1.0
