import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from tasks.errors import InputError
from tasks.release.half_width import needed, require, require_possible, wilson


def test_hand_computed():
    # z = 1.959964, z^2 = 3.841459. At p = 1/2: n = z^2 (1 / (4 w^2) - 1), here 3.841459 * (277.7778 - 1) = 1063.23.
    assert needed(0.5, 0.03, 0.95) == 1064
    # At p = 0: n = z^2 (1 - 2 w) / (2 w) = 3.841459 * 0.94 / 0.06 = 60.18; p = 1 is the same.
    assert needed(0.0, 0.03, 0.95) == needed(1.0, 0.03, 0.95) == 61
    # At 90 %, z^2 = 2.705543: 2.705543 * (1 / (4 * 0.0025) - 1) = 267.85.
    assert needed(0.5, 0.05, 0.90) == 268
    assert needed(0.5, 0.5, 0.95) == 1
    # 4 of 10 at 95 %: 0.1682 to 0.6873 (Newcombe's table form of Wilson's interval), half of it 0.2596.
    assert wilson(0.4, 10, 0.95) == pytest.approx(0.2596, abs=1e-4)


@given(st.integers(1, 3000), st.floats(0, 1), st.floats(0.003, 0.499), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_number_is_the_least_that_is_enough(n, share, width, confidence):
    hits = round(share * n)
    found = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    assert wilson(hits / n, n, confidence) == pytest.approx((found.high - found.low) / 2, abs=1e-9)
    least = needed(hits / n, width, confidence)
    assert wilson(hits / n, least, confidence) <= width + 1e-9
    assert least == 1 or wilson(hits / n, least - 1, confidence) > width - 1e-9


def interval(hits, n):
    found = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    return {"mean": hits / n, "low": found.low, "high": found.high}


def test_too_wide_an_interval_is_refused_with_the_number_that_is_needed():
    with pytest.raises(InputError) as caught:
        require(0.03, interval(150, 300), 300, 0.95)
    assert str(caught.value) == (
        "gate.half_width: success 0.5 [0.444, 0.556] on 300 questions: half the interval is 0.0562, more than 0.03; "
        "at this success 1,064 questions are needed; set evaluate.questions to 1,064 or more, and see that the test "
        "set holds as many"
    )
    require(0.03, interval(532, 1064), 1064, 0.95)
    require(0.0563, interval(150, 300), 300, 0.95)


def test_a_graded_successs_interval_falls_with_the_root_of_the_questions():
    # Half the interval is 0.04, wanted is 0.01: 16 times the questions. Wilson's at this mean would be 0.0977.
    with pytest.raises(InputError, match="at this success 1,600 questions are needed"):
        require(0.01, {"mean": 0.5, "low": 0.46, "high": 0.54}, 100, 0.95)


def test_what_no_rate_can_reach_is_refused_before_anything_runs():
    with pytest.raises(InputError, match=r"takes 381 questions at least, whatever the rate, and .* is 380") as caught:
        require_possible(0.005, 380, 0.95)
    assert f"set evaluate.questions to {needed(0.5, 0.005, 0.95):,}" in str(caught.value)
    require_possible(0.005, 381, 0.95)
    for width in (1e-7, 1e-160, 5e-324):  # whose square is no number any more
        with pytest.raises(InputError, match=r"^gate\.half_width: at least 1e-06, got "):
            require_possible(width, 380, 0.95)
    assert needed(0.5, 0.005, 0.95) == math.ceil(3.841459 * (10_000 - 1))
