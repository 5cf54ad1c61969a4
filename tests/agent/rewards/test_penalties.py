import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from tasks.agent.rewards.penalties import common_subsequence, repeated_queries, rouge_l, step_penalty

WORDS = st.lists(st.sampled_from(["who", "is", "ada", "bob"]), max_size=9)
QUERIES = st.lists(st.text("ab .?A", max_size=9), max_size=5)


@pytest.mark.parametrize(
    ("turns", "linear", "quadratic"), [(0, 0.0, 0.0), (1, -1.0, -1.0), (2, -2.0, -4.0), (5, -5.0, -25.0)]
)
def test_step_penalty_by_hand(turns: int, linear: float, quadratic: float) -> None:
    assert (step_penalty(turns, "linear"), step_penalty(turns, "quadratic")) == (linear, quadratic)


@pytest.mark.parametrize(
    ("other", "value"),
    # Lin 2004, section 3.1: S1 is the reference; S2 and S3 share the same bigrams with it, Rouge-L tells them apart.
    [("police kill the gunman", 3 / 4), ("the gunman kill police", 2 / 4), ("the gunman police killed", 2 / 4)],
)
def test_rouge_l_of_the_papers_sentences(other: str, value: float) -> None:
    assert rouge_l(["police", "killed", "the", "gunman"], other.split()) == value


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        ("a b c d", "a c", 4 / 6),  # R = 2/4, P = 2/2
        ("a b", "b a", 1 / 2),
        ("a a a", "a", 2 / 4),
        ("a", "b", 0.0),
        ("a", "", 0.0),
        ("", "", 1.0),
    ],
)
def test_rouge_l_by_hand(one: str, other: str, value: float) -> None:
    assert rouge_l(one.split(), other.split()) == pytest.approx(value)


@given(WORDS, WORDS)
def test_rouge_l_is_symmetric_bounded_and_1_just_on_equal_words(one: list[str], other: list[str]) -> None:
    score = rouge_l(one, other)
    assert score == rouge_l(other, one)
    assert 0.0 <= score <= 1.0 and (score == 1.0) == (one == other)
    assert common_subsequence(one, other) == LCSseq.similarity(one, other)


@pytest.mark.parametrize(
    ("queries", "value"),
    [
        ([], 0.0),
        (["Ada Lovelace"], 0.0),
        (["Ada Lovelace", "Who is the U.S. president"], 0.0),
        (["Ada Lovelace", "the ada  lovelace?"], -1.0),  # equal in the normal form
        (["a b", "Ada", "ada", "ADA"], -2.0),  # every repetition costs
        (["x y z w", "x y z v"], -0.75),
        (["x y z w", "x y v u"], 0.0),  # 0.5 is below the threshold
        (["x y z w", "q", "x y z w"], -1.0),  # the closest earlier one counts, not the last
    ],
)
def test_repeated_queries_by_hand(queries: list[str], value: float) -> None:
    assert repeated_queries(queries, threshold=0.7) == pytest.approx(value)


def test_at_the_threshold_a_query_counts() -> None:
    assert repeated_queries(["x y", "x z"], threshold=0.5) == -0.5


@given(QUERIES, st.floats(0.01, 1))
def test_repeating_the_last_query_costs_just_1_more(queries: list[str], threshold: float) -> None:
    before = repeated_queries(queries, threshold)
    assert min(0, 1 - len(queries)) <= before <= 0.0
    if queries:
        assert repeated_queries([*queries, queries[-1]], threshold) == pytest.approx(before - 1.0)
