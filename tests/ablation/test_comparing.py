"""Intervals over seeds and questions, by hand and against a source, and how often they are right."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ablation.comparing import Difference, difference, exact_match, gain, over_seeds
from tasks.evaluation.intervals import Interval, rate_difference, rate_interval


def test_seeds_that_differ_decide_by_students_t() -> None:
    narrow = [Interval(mean, mean - 0.001, mean + 0.001) for mean in (0.80, 0.84, 0.88)]
    found = over_seeds(narrow, lowest=0)
    half = 4.302653 * 0.04 / math.sqrt(3)  # t of 2 degrees of freedom, a standard deviation of .04
    assert (found.mean, found.low, found.high) == pytest.approx((0.84, 0.84 - half, 0.84 + half), abs=1e-6)


def test_seeds_that_agree_decide_nothing() -> None:
    found = over_seeds([Interval(0.5, 0.4, 0.57)] * 3, lowest=0)
    # Three arms of .1 and of .07: sqrt(3 x .01) / 3 and sqrt(3 x .0049) / 3.
    assert (found.low, found.high) == pytest.approx((0.5 - 0.1 / math.sqrt(3), 0.5 + 0.07 / math.sqrt(3)))


def test_one_seed_has_its_own_interval() -> None:
    assert over_seeds([Interval(0.5, 0.4, 0.57)], lowest=0) == Interval(0.5, 0.4, 0.57)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5).map(
        lambda seeds: [Interval(m, max(-1, m - below), min(1, m + above)) for m, below, above in seeds]
    )
)
def test_an_interval_holds_its_mean_and_lies_where_a_difference_may(seeds) -> None:
    found = over_seeds(seeds, lowest=-1)
    assert -1 <= found.low <= found.mean + 1e-12 and found.mean - 1e-12 <= found.high <= 1


def test_what_one_seed_shows_is_paired_by_question(make_result) -> None:
    baseline = make_result("baseline", em=[1] * 40 + [0] * 60)
    arm = make_result("dapo", em=[1] * 70 + [0] * 30)
    found = difference([arm], [baseline])
    gained = np.array([0.0] * 40 + [1.0] * 30 + [0.0] * 30)
    assert found == Difference(rate_difference(gained, 0.95), {0: pytest.approx(0.3)}, "question")
    assert found.verdict == "better"
    assert difference([baseline], [arm]).verdict == "worse"


def test_the_seeds_that_both_have_are_compared(make_result) -> None:
    baseline = [make_result("baseline", seed) for seed in (0, 1)]
    arm = [make_result("dapo", seed, em=[1] * 10) for seed in (2, 1)]
    found = difference(arm, baseline)
    assert found is not None and found.by_seed == {1: pytest.approx(0.2)}
    assert difference(arm[:1], baseline) is None


def test_no_difference_is_no_proof(make_result) -> None:
    # Three seeds of +.1, +.0 and +.2: a mean of .1, and .1 x 4.30 / sqrt(3) to each side.
    baseline = [make_result("baseline", seed, em=[1] * 500 + [0] * 500) for seed in range(3)]
    arm = [make_result("dapo", n, em=[1] * right + [0] * (1000 - right)) for n, right in enumerate((600, 500, 700))]
    found = difference(arm, baseline)
    assert found is not None and found.verdict == "no difference shown"
    assert found.interval.low == pytest.approx(0.1 - 4.302653 * 0.1 / math.sqrt(3), abs=1e-6)


def test_other_questions_are_compared_as_newcombe_does(make_result) -> None:
    """Newcombe, "Interval estimation for the difference between independent proportions" (1998), table II (a)."""
    arm = make_result("unshuffled", em=[1] * 56 + [0] * 14)
    baseline = make_result("baseline", em=[1] * 48 + [0] * 32)
    found = difference([arm], [baseline])
    assert found is not None and found.paired == "seed"
    assert (found.interval.low, found.interval.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_exact_match_and_gain_of_one_seed(make_result) -> None:
    one = make_result("dapo")
    assert exact_match([one], "rl") == rate_interval(np.array([1.0] * 8 + [0.0] * 2), 0.95)
    assert gain([one]) == rate_difference(np.array([0.0] * 5 + [1.0] * 3 + [0.0] * 2), 0.95)


def test_three_seeds_and_a_thousand_questions_are_covered() -> None:
    """Of arms that differ from the baseline by nothing, at most 5 % are said to differ, and a little for the draw."""
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        seeds = []
        for _ in range(3):
            first, second = np.clip(0.9 + 0.03 * random.standard_normal(2), 0, 1)  # what a seed makes of each arm
            answers = (random.random((2, 1000)) < np.array([[first], [second]])).astype(float)
            seeds.append(rate_difference(answers[0] - answers[1], 0.95))
        found = over_seeds(seeds, lowest=-1)
        wrong += not found.low <= 0 <= found.high
    assert wrong <= 0.07 * 400
