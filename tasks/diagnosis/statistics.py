"""The little statistics that the causes share: bounds on shares, and changes between groups of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

CONFIDENCE = 0.95
NOISE = 1e-9  # below it a mean or an error is what floating point leaves of 0


def bounds(count: int, of: int) -> tuple[float, float]:
    """Wilson's interval of a share."""
    from scipy.stats import binomtest

    interval = binomtest(count, of).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def change(earlier: pd.DataFrame, later: pd.DataFrame, column: str) -> tuple[float, float]:
    """How much a column's mean changed, and by how many standard errors, were the mix of data sources the same.

    The unit is a group (the rollouts of one question in a step), since its rollouts resemble each other. Every source
    that both parts have counts by its share of their groups; so easy sources first and hard ones later is no fall.

    Args:
        earlier, later: episodes with `data_source`, `step`, `question_id` and the column.

    Returns:
        the change, and it over its standard error; (nan, 0.0) where a source has fewer than two groups in each part.
    """
    before, after = (part.groupby(["data_source", "step", "question_id"])[column].mean() for part in (earlier, later))
    counted: list[tuple[int, float, float]] = []
    for source in sorted(set(before.index.get_level_values(0)) & set(after.index.get_level_values(0))):
        one, other = before[source], after[source]
        if min(len(one), len(other)) >= 2:
            difference = float(other.mean() - one.mean())
            variance = float(one.var() / len(one) + other.var() / len(other))
            counted.append((len(one) + len(other), difference, variance))
    total = sum(groups for groups, _, _ in counted)
    if not total:
        return math.nan, 0.0
    mean = sum(groups * difference for groups, difference, _ in counted) / total
    error = math.sqrt(sum((groups / total) ** 2 * variance for groups, _, variance in counted))
    if abs(mean) < NOISE:
        return 0.0, 0.0
    return mean, mean / error if error > NOISE else math.copysign(math.inf, mean)


def median(values: Sequence[float]) -> float:
    """The median; nan of nothing."""
    return float(pd.Series(list(values), dtype=float).median())
