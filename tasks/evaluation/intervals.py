"""Intervals and paired tests, as pure functions of arrays; all randomness comes from a seed.

Sources: Wilson (1927) for rates; Efron, "Better Bootstrap Confidence Intervals" (1987) for means; for pairs Bonett and
Price, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data" (2012),
McNemar's test in the mid-p form of Fagerland, Lydersen and Laake, "The McNemar test for binary matched-pairs data"
(2013), and Wilcoxon (1945). tests/evaluation/test_coverage.py shows how often they are right.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import stats

# Resampled values held at a time: bounds the memory of a bootstrap over many questions.
_BATCH_VALUES = 4_000_000
# Fewer values than these that are off a bound, or pairs that differ, are too few to be resampled.
_FEW = 10


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval."""

    mean: float
    low: float
    high: float

    def plain(self) -> dict[str, float]:
        """The interval as the figures hold it."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Bootstrap:
    """How means get their intervals: level in (0, 1), number of resamples, seed."""

    confidence: float
    resamples: int
    seed: int


def rate_interval(values: np.ndarray, confidence: float) -> Interval:
    """Wilson's score interval for a share; at 0 and 1 too it has a width.

    Args:
        values: zeros and ones, shape (n,), n > 0.
        confidence: level in (0, 1).
    """
    n, z2 = len(values), _z(confidence) ** 2
    mean = float(values.mean())
    middle, half = (mean + z2 / (2 * n)) / (1 + z2 / n), math.sqrt(z2 * (mean * (1 - mean) + z2 / (4 * n)) / n)
    half /= 1 + z2 / n
    # At 0 and 1 one end is the mean itself, but for rounding.
    return Interval(mean, max(0.0, min(mean, middle - half)), min(1.0, max(mean, middle + half)))


def share_interval(values: np.ndarray, how: Bootstrap) -> Interval:
    """Interval of a mean of values in [0, 1], such as F1: `mean_interval` where there is something to resample.

    Where all but a few values lie on one bound, a resample has mostly that bound, and where all do, nothing else. There
    the interval is the one of a rate with the same mean: rather too wide than too narrow, since no values in [0, 1]
    spread more than zeros and ones of the same mean do.

    Args:
        values: shape (n,), n > 0.
        how: level, resamples and seed.
    """
    if min(np.count_nonzero(values > 0), np.count_nonzero(values < 1)) < _FEW:
        return rate_interval(values, how.confidence)
    return mean_interval(values, how)


def mean_interval(values: np.ndarray, how: Bootstrap) -> Interval:
    """Bootstrap interval of a mean, bias-corrected and accelerated.

    Where BCa is not defined (too little spread for its acceleration) the percentile interval is taken. Values
    that are all equal give an interval without width: they show no spread to estimate one from.

    Args:
        values: shape (n,), n > 0.
        how: level, resamples and seed.
    """
    mean = float(values.mean())
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        low, high = _bootstrap(values, how, "BCa")
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = _bootstrap(values, how, "percentile")
    return Interval(mean, low, high)


def rate_difference(differences: np.ndarray, confidence: float) -> Interval:
    """Bonett and Price's interval for the difference of two rates on the same questions (2012, equation 4).

    Wald's interval with one pair more in each of the two cells of pairs that differ: it has a width where no pair
    differs, too. For differences that are no whole numbers, what was gained and what was lost are added up.

    Args:
        differences: of the pairs, in [-1, 1], shape (n,), n > 0.
        confidence: level in (0, 1).
    """
    n = len(differences)
    gained = (np.clip(differences, 0, None).sum() + 1) / (n + 2)
    lost = (np.clip(-differences, 0, None).sum() + 1) / (n + 2)
    half = _z(confidence) * math.sqrt((gained + lost - (gained - lost) ** 2) / (n + 2))
    mean, middle = float(differences.mean()), float(gained - lost)
    return Interval(mean, max(-1.0, min(mean, middle - half)), min(1.0, max(mean, middle + half)))


def share_difference(differences: np.ndarray, how: Bootstrap) -> Interval:
    """Interval of a mean difference of values in [0, 1]: a bootstrap, or `rate_difference` where few pairs differ.

    Args:
        differences: of the pairs, in [-1, 1], shape (n,), n > 0.
        how: level, resamples and seed.
    """
    if np.count_nonzero(differences) < _FEW:
        return rate_difference(differences, how.confidence)
    return mean_interval(differences, how)


def _z(confidence: float) -> float:
    return float(stats.norm.ppf((1 + confidence) / 2))


def _bootstrap(values: np.ndarray, how: Bootstrap, method: str) -> tuple[float, float]:
    found = stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=how.confidence,
        n_resamples=how.resamples,
        method=method,
        batch=max(1, _BATCH_VALUES // len(values)),
        rng=np.random.default_rng(how.seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided McNemar test: p of the split of the pairs that differ, were both sides equally likely.

    The mid-p variant: of 1,000 questions on which 2 % of the pairs differ, the exact test at 5 % raises a false alarm
    in 2.9 % of all cases, the mid-p test in 4.6 % (Fagerland, Lydersen and Laake 2013, equation 3).

    Args:
        first: zeros and ones, shape (n,).
        second: the same questions, shape (n,).

    Returns:
        p; 1 when no pair differs.
    """
    wins, losses = int((first > second).sum()), int((first < second).sum())
    if wins == losses:
        return 1.0
    fewer, pairs = min(wins, losses), wins + losses
    return float(2 * stats.binom.cdf(fewer, pairs, 0.5) - stats.binom.pmf(fewer, pairs, 0.5))


def wilcoxon(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided Wilcoxon signed-rank test; pairs that are equal are left out.

    Args:
        first: shape (n,).
        second: the same questions, shape (n,).

    Returns:
        p; 1 when no pair differs.
    """
    differences = first - second
    return float(stats.wilcoxon(differences, zero_method="wilcox").pvalue) if differences.any() else 1.0
