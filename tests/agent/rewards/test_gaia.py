"""GAIA's scorer on cases worked out by hand after the leaderboard's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards import SCORERS, quasi_exact_match


@pytest.mark.parametrize(
    ("golden", "answer", "right"),
    [
        # Numbers: of the answer, and of it alone, units and thousands' commas go.
        ("17", "17", True),
        ("17", "17%", True),
        ("17", "$17.00", True),
        ("17", " 1.7e1 ", True),
        ("1234", "$1,234", True),
        ("1234", "1.234", False),
        ("17", "17 apples", False),
        ("17", "seventeen", False),
        ("-0.5", "-.5", True),
        ("17", "", False),
        ("17", None, False),
        # What has a unit is no number: a list where it has a comma, else a string.
        ("17%", "17", True),
        ("17%", "17.0", False),
        ("$1,234", "1,234", False),
        ("$1,234", "$1,234", True),
        ("$1,234", "1234", False),
        # Lists: comma or semicolon, in order, as many elements; punctuation within an element counts.
        ("a, b, c", "A,b;C", True),
        ("a, b", "a, b, c", False),
        ("a, b, c", "a, b", False),
        ("a, b", "b, a", False),
        ("a, b", "a b", False),
        ("St. Paul, Rome", "st.paul, rome", True),
        ("St. Paul, Rome", "St Paul, Rome", False),
        ("3; 4", "3.0, 4%", True),
        ("x, 12, y", "X, $12.0, Y", True),
        ("x, 12, y", "x, twelve, y", False),
        ("1,2", "1,2,", False),
        # Strings: neither white space nor case nor punctuation counts, articles do.
        ("sea gull", "Seagull!", True),
        ("U.S.", "us", True),
        ("The Castle", "castle", False),
        ("Castle", "Cattle", False),
        ("INT. THE CASTLE - DAY 1", "int the castle day 1", True),
        # Right on the leaderboard, and refused here.
        ("inf", "no idea", False),
        ("?", "", False),
        ("None", None, False),
        ("inf", "inf", True),
        ("nan", "nan", False),
    ],
)
def test_the_golden_answer_says_what_is_compared(golden: str, answer: str | None, right: bool) -> None:
    assert quasi_exact_match(answer, [golden]) == float(right)


def test_any_golden_answer_will_do() -> None:
    assert quasi_exact_match("2", ["two", "2"]) == 1.0
    assert quasi_exact_match("2", []) == 0.0


@given(st.one_of(st.none(), st.text()), st.lists(st.text(), max_size=3))
def test_it_takes_any_text_and_says_right_or_wrong(answer: str | None, golden: list[str]) -> None:
    assert quasi_exact_match(answer, golden) in (0.0, 1.0)


@given(st.text(alphabet="aZ1 ,;.$%-é", min_size=1).filter(lambda text: any(one.isalnum() for one in text)))
def test_the_golden_answer_itself_is_right(golden: str) -> None:
    assert quasi_exact_match(golden, [golden]) == 1.0


def test_rows_name_scorers_by_these_names() -> None:
    assert list(SCORERS) == ["squad", "gaia"]
    assert (SCORERS["squad"]("the $5", ["5"]), SCORERS["gaia"]("the $5", ["5"])) == (1.0, 0.0)
