"""Intervals and paired tests, as pure functions of arrays; all randomness comes from a seed.

Sources: Wilson (1927) for rates; Efron, "Better Bootstrap Confidence Intervals" (1987) for means; McNemar
(1947) in its exact form and Wilcoxon (1945) for pairs.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import stats

# Resampled values held at a time: bounds the memory of a bootstrap over many questions.
_BATCH_VALUES = 4_000_000


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
    """Wilson's score interval for a share.

    Args:
        values: zeros and ones, shape (n,), n > 0.
        confidence: level in (0, 1).
    """
    found = stats.binomtest(int(values.sum()), len(values)).proportion_ci(confidence, method="wilson")
    return Interval(float(values.mean()), float(found.low), float(found.high))


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
    """Two-sided exact McNemar test: p of the split of the pairs that differ, were both sides equally likely.

    Args:
        first: zeros and ones, shape (n,).
        second: the same questions, shape (n,).

    Returns:
        p; 1 when no pair differs.
    """
    wins, losses = int((first > second).sum()), int((first < second).sum())
    return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


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
