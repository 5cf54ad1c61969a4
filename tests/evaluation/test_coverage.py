"""How often intervals hold the true mean, and how often the paired tests raise a false alarm.

1,000 simulations from a fixed seed; an interval at 95 % has to hold the mean in 930 to 970 of them. What can be counted
out is counted out: every number of right answers, weighed by its probability.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tasks.evaluation.intervals import (
    Bootstrap,
    Interval,
    mcnemar,
    mean_interval,
    rate_difference,
    rate_interval,
    share_difference,
    share_interval,
    wilcoxon,
)

Draw = Callable[[np.random.Generator], np.ndarray]
SIMULATIONS = 1000
LEVEL = 0.05


def coverage(draw: Draw, true: float, interval: Callable[[np.ndarray, int], Interval], seed: int = 11) -> float:
    """Share of the simulations whose interval holds the true mean."""
    rng = np.random.default_rng(seed)
    found = [interval(draw(rng), number) for number in range(SIMULATIONS)]
    return float(np.mean([one.low <= true <= one.high for one in found]))


def bootstrap(number: int) -> Bootstrap:
    return Bootstrap(1 - LEVEL, 500, number)


def of_rate(values: np.ndarray, number: int) -> Interval:
    return rate_interval(values, 1 - LEVEL)


def answers(right: int, n: int) -> np.ndarray:
    return np.repeat([1.0, 0.0], [right, n - right])


def scores(n: int, ones: float, zeros: float) -> tuple[Draw, float]:
    """F1 as it comes: mostly 1 or 0, and something between for the rest; with its true mean."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        kind = rng.random(n)
        return np.where(kind < ones, 1.0, np.where(kind < ones + zeros, 0.0, rng.random(n)))

    return draw, ones + (1 - ones - zeros) / 2


@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.99])
def test_wilson_covers_a_rate(p: float, n: int) -> None:
    right = np.arange(n + 1)
    found = [rate_interval(answers(count, n), 1 - LEVEL) for count in right]
    held = np.array([one.low <= p <= one.high for one in found])
    counted = stats.binom.pmf(right, n, p)[held].sum()
    assert 0.93 <= counted <= 0.97
    # The standard deviation of such a share of 1,000 simulations is .7 %.
    simulated = coverage(lambda rng: (rng.random(n) < p).astype(float), p, of_rate)
    assert simulated == pytest.approx(counted, abs=0.02)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_rate_of_0_or_1_is_always_covered_and_never_for_certain(p: float) -> None:
    """Every sample is the same there, so 95 % can't be had: the interval holds the rate, and as much as it must."""
    found = rate_interval(np.full(300, p), 1 - LEVEL)
    assert found.low <= p <= found.high
    # Wilson's: z^2 / (n + z^2). Rates up to 1 % show no right answer in 300 in 5 % of all cases, and are inside.
    assert found.high - found.low == pytest.approx(3.8415 / 303.8415, abs=1e-6)
    assert stats.binom.pmf(0, 300, found.high - found.low) < LEVEL


def test_no_interval_covers_a_rate_of_a_few_in_all_just_so() -> None:
    """Coverage jumps with the number of right answers: of 100 at 1 %, 0 to 2 have 92 %, 0 to 3 have 98 %."""
    held = [count for count in range(101) if rate_interval(answers(count, 100), 1 - LEVEL).low <= 0.01]
    assert held == [0, 1, 2]
    assert stats.binom.cdf([2, 3], 100, 0.01) == pytest.approx([0.9206, 0.9816], abs=1e-4)


@pytest.mark.parametrize(
    ("draw", "true"),
    [
        (lambda rng: rng.exponential(size=100), 1.0),
        (lambda rng: rng.geometric(0.5, size=100).astype(float), 2.0),  # searches a question
        (lambda rng: rng.lognormal(0, 0.5, size=100), np.exp(0.125)),  # tokens
    ],
)
def test_the_bootstrap_covers_skewed_means(draw: Draw, true: float) -> None:
    assert 0.93 <= coverage(draw, true, lambda values, number: mean_interval(values, bootstrap(number))) <= 0.97


@pytest.mark.parametrize(("n", "ones", "zeros"), [(100, 0.8, 0.05), (100, 0.4, 0.4), (100, 0.02, 0.8)])
def test_the_mean_of_scores_is_covered(n: int, ones: float, zeros: float) -> None:
    draw, true = scores(n, ones, zeros)
    assert 0.93 <= coverage(draw, true, lambda values, number: share_interval(values, bootstrap(number))) <= 0.97


@pytest.mark.parametrize(("n", "ones", "zeros"), [(100, 0.99, 0.005), (100, 0.0, 0.98)])
def test_scores_near_a_bound_are_covered_where_a_bootstrap_would_miss(n: int, ones: float, zeros: float) -> None:
    draw, true = scores(n, ones, zeros)
    assert coverage(draw, true, lambda values, number: share_interval(values, bootstrap(number))) >= 0.93
    assert coverage(draw, true, lambda values, number: mean_interval(values, bootstrap(number))) < 0.93


def outcomes(n: int, gained: float, lost: float) -> Draw:
    return lambda rng: rng.choice([1.0, -1.0, 0.0], size=n, p=[gained, lost, 1 - gained - lost])


@pytest.mark.parametrize(
    ("n", "gained", "lost"), [(100, 0.3, 0.05), (300, 0.02, 0.0), (300, 0.05, 0.05), (1000, 0.6, 0.0)]
)
def test_a_difference_of_rates_is_covered(n: int, gained: float, lost: float) -> None:
    found = coverage(outcomes(n, gained, lost), gained - lost, lambda values, _: rate_difference(values, 1 - LEVEL))
    assert 0.93 <= found <= 0.97


@pytest.mark.parametrize(("gained", "lost"), [(0.0, 0.0), (0.005, 0.005), (1.0, 0.0)])
def test_a_difference_is_covered_where_hardly_a_pair_or_every_pair_differs(gained: float, lost: float) -> None:
    draw, true = outcomes(200, gained, lost), gained - lost
    assert coverage(draw, true, lambda values, _: rate_difference(values, 1 - LEVEL)) >= 0.97
    assert coverage(draw, true, lambda values, number: share_difference(values, bootstrap(number))) >= 0.93


def rejections(pairs: int) -> float:
    """How often McNemar's test rejects when so many pairs differ, by chance alone."""
    wins = np.arange(pairs + 1)
    found = np.array([mcnemar(answers(won, pairs), answers(pairs - won, pairs)[::-1]) for won in wins])
    return float(stats.binom.pmf(wins, pairs, 0.5)[found <= LEVEL].sum())


@pytest.mark.parametrize(("n", "differing"), [(300, 0.1), (1000, 0.02), (1000, 0.1)])
def test_mcnemars_false_alarms_are_its_level(n: int, differing: float) -> None:
    pairs = np.arange(int(stats.binom.ppf(1 - 1e-9, n, differing)) + 1)
    alarms = stats.binom.pmf(pairs, n, differing) @ [rejections(count) for count in pairs]
    assert 0.9 * LEVEL <= alarms <= LEVEL


def test_with_few_pairs_mcnemar_is_silent() -> None:
    assert [rejections(pairs) for pairs in range(5)] == [0.0] * 5


def false_alarms(test: Callable[[np.ndarray, np.ndarray], float], draw: Draw, seed: int = 3) -> float:
    rng = np.random.default_rng(seed)
    found = [test(values := draw(rng), np.zeros_like(values)) for _ in range(SIMULATIONS)]
    return float(np.mean([p <= LEVEL for p in found]))


@pytest.mark.parametrize(
    "draw",
    [
        # Searches of two models that are alike: many ties, many pairs without a difference.
        lambda rng: (rng.poisson(1.5, 300) - rng.poisson(1.5, 300)).astype(float),
        lambda rng: rng.exponential(size=100) - rng.exponential(size=100),  # tokens
        lambda rng: np.where(rng.random(300) < 0.1, rng.uniform(-1, 1, 300), 0.0),  # F1, mostly alike
    ],
)
def test_wilcoxons_false_alarms_are_its_level(draw: Draw) -> None:
    # The standard deviation of a rate of 5 % in 1,000 simulations is .7 %.
    assert false_alarms(wilcoxon, draw) == pytest.approx(LEVEL, abs=0.02)
