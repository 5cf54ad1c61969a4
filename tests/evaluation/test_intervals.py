import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tasks.evaluation.intervals import (
    Bootstrap,
    mcnemar,
    mean_interval,
    rate_difference,
    rate_interval,
    share_difference,
    share_interval,
    wilcoxon,
)

HOW = Bootstrap(confidence=0.95, resamples=2000, seed=0)


def ones(count: int, n: int) -> np.ndarray:
    return np.array([1.0] * count + [0.0] * (n - count))


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0000, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_newcombes_table(count: int, n: int, low: float, high: float) -> None:
    """Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I, method 3."""
    found = rate_interval(ones(count, n), 0.95)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.mean == count / n


def test_the_bootstrap_is_close_to_the_normal_interval_where_that_holds() -> None:
    values = np.random.default_rng(1).normal(3, 2, size=400)
    found, half = mean_interval(values, HOW), 1.96 * values.std(ddof=1) / 20
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)


def test_the_bootstrap_leans_with_skewed_values() -> None:
    values = np.random.default_rng(2).exponential(size=60)
    found = mean_interval(values, HOW)
    assert found.high - found.mean > found.mean - found.low


def test_the_seed_decides_the_bootstrap() -> None:
    values = np.arange(30.0) ** 2
    assert mean_interval(values, HOW) == mean_interval(values, HOW)
    assert mean_interval(values, HOW) != mean_interval(values, Bootstrap(0.95, 2000, 1))


def test_equal_values_have_no_width() -> None:
    for values in (np.full(9, 2.5), np.array([2.5])):
        assert mean_interval(values, HOW).plain() == {"mean": 2.5, "low": 2.5, "high": 2.5}


def test_where_bca_is_undefined_the_percentiles_are_taken() -> None:
    values, how = np.array([0.0, 1.0]), Bootstrap(0.95, 2, 4)
    with pytest.warns(stats.DegenerateDataWarning), np.errstate(invalid="ignore"):
        undefined = stats.bootstrap((values,), np.mean, n_resamples=2, rng=np.random.default_rng(4))
    assert np.isnan(undefined.confidence_interval.low)
    found = mean_interval(values, how)
    assert 0 <= found.low <= found.high <= 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=30))
def test_paired_differences_always_have_an_interval_round_their_mean(values: list[float]) -> None:
    found = mean_interval(np.array(values), Bootstrap(0.95, 200, 0))
    assert -1 <= found.low <= found.mean <= found.high <= 1


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=30))
def test_shares_have_an_interval_round_their_mean_within_their_bounds(values: list[float]) -> None:
    how, shares = Bootstrap(0.95, 50, 0), np.array(values)
    for found in (rate_interval(shares, 0.95), share_interval(shares, how)):
        assert 0 <= found.low <= found.mean <= found.high <= 1
    differences = shares - shares[::-1]
    for found in (rate_difference(differences, 0.95), share_difference(differences, how)):
        assert -1 <= found.low <= found.mean <= found.high <= 1


def test_bonett_and_price_by_hand() -> None:
    # 12 of 100 pairs won, 2 lost: (13 - 3) / 102 +- 1.96 sqrt((16 / 102 - (10 / 102)^2) / 102).
    found = rate_difference(np.repeat([1.0, -1.0, 0.0], [12, 2, 86]), 0.95)
    assert found.mean == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.09804 - 0.07447, 0.09804 + 0.07447), abs=1e-4)


def test_the_interval_of_scores_is_a_bootstrap_where_there_is_something_to_resample() -> None:
    some, few = (np.repeat([0.5, 1.0, 0.0], [count, 100 - count, 40]) for count in (60, 0))
    assert share_interval(some, HOW) == mean_interval(some, HOW)
    assert share_interval(few, HOW) == mean_interval(few, HOW)
    nearly = np.repeat([0.5, 1.0], [9, 91])
    assert share_interval(nearly, HOW) == rate_interval(nearly, 0.95)
    assert share_difference(nearly - 1, HOW) == rate_difference(nearly - 1, 0.95)
    assert share_difference(some - 1, HOW) == mean_interval(some - 1, HOW)


def test_mcnemar_by_hand() -> None:
    # 8 pairs won, 1 lost, 11 equal: p = (2 (C(9,0) + C(9,1)) - C(9,1)) / 2^9.
    first = np.array([1] * 8 + [0] + [1] * 6 + [0] * 5)
    second = np.array([0] * 8 + [1] + [1] * 6 + [0] * 5)
    assert mcnemar(first, second) == mcnemar(second, first) == pytest.approx(11 / 512)
    assert mcnemar(first, first) == 1.0


def test_wilcoxon_on_darwins_maize() -> None:
    """Differences of crossed and self-fertilised plants (Fisher 1935): exact two-sided p for W = 24, n = 15."""
    differences = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48], dtype=float)
    assert wilcoxon(differences, np.zeros(15)) == pytest.approx(0.041259765625)
    assert wilcoxon(differences, differences) == 1.0
