"""Intervals over seeds and questions, and what they show.

Two things vary: which questions are asked, and what a seed makes of data, weights and sampling. An interval here must
hold for both, so it is the wider, end by end, of two:

- of the questions: each seed's own interval, by question (Wilson for a rate; Bonett and Price for a paired
  difference), and these put together as the root of the sum of squares of their arms (Zou and Donner, "Construction of
  confidence limits about effect measures: A general approach", 2008);
- of the seeds: Student's t on the seeds' values, with seeds - 1 degrees of freedom (4.30 standard errors of three
  seeds, 12.71 of two).

Seeds that happen to agree do not make the first narrower, and many questions not the second. With one seed there is the
first alone, and it speaks of that seed. No interval is corrected for the number of arms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from tasks.ablation.result import Result
from tasks.evaluation.intervals import Interval, rate_difference, rate_interval

CONFIDENCE = 0.95

Verdict = Literal["better", "worse", "no difference shown"]
Pairing = Literal["question", "seed"]


@dataclass(frozen=True)
class Difference:
    """An arm's exact match minus the baseline's.

    Attributes:
        interval: of the mean over seeds.
        by_seed: each seed's.
        paired: by `question` where all seeds' questions are the same ones, otherwise by `seed` alone.
    """

    interval: Interval
    by_seed: Mapping[int, float]
    paired: Pairing

    @property
    def verdict(self) -> Verdict:
        """What the interval shows: it lies above 0, below, or holds it."""
        if self.interval.low > 0:
            return "better"
        return "worse" if self.interval.high < 0 else "no difference shown"


def over_seeds(seeds: Sequence[Interval], *, lowest: float) -> Interval:
    """The mean of what the seeds show, with the wider interval of questions and of seeds.

    Args:
        seeds: each seed's mean with its interval by question; at least one.
        lowest: the least that a mean may be, 0 of a rate and -1 of a difference; 1 is the most.
    """
    means = np.array([one.mean for one in seeds])
    n, mean = len(means), float(means.mean())
    below = math.hypot(*(one.mean - one.low for one in seeds)) / n
    above = math.hypot(*(one.high - one.mean for one in seeds)) / n
    if n > 1:
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * means.std(ddof=1) / math.sqrt(n))
        below, above = max(below, half), max(above, half)
    return Interval(mean, max(lowest, mean - below), min(1.0, mean + above))


def exact_match(results: Sequence[Result], model: str) -> Interval:
    """A model's exact match over the seeds of an arm."""
    return over_seeds([rate_interval(_em(one, model), CONFIDENCE) for one in results], lowest=0.0)


def gain(results: Sequence[Result]) -> Interval:
    """RL's exact match minus SFT's, paired by question, over the seeds of an arm."""
    seeds = [rate_difference(_em(one, "rl") - _em(one, "sft"), CONFIDENCE) for one in results]
    return over_seeds(seeds, lowest=-1.0)


def difference(arm: Sequence[Result], baseline: Sequence[Result]) -> Difference | None:
    """RL's exact match of an arm minus the baseline's, over the seeds that both have; None where there is none."""
    others = {one.seed: one for one in baseline}
    pairs = [(one, others[one.seed]) for one in sorted(arm, key=lambda one: one.seed) if one.seed in others]
    if not pairs:
        return None
    same = all(one.questions.id == other.questions.id for one, other in pairs)
    of_pair = _paired if same else _unpaired
    seeds = [of_pair(_em(one, "rl"), _em(other, "rl")) for one, other in pairs]
    return Difference(
        over_seeds(seeds, lowest=-1.0),
        {one.seed: found.mean for (one, _), found in zip(pairs, seeds, strict=True)},
        "question" if same else "seed",
    )


def _em(result: Result, model: str) -> np.ndarray:
    return np.array(result.models[model].em, dtype=float)


def _paired(first: np.ndarray, second: np.ndarray) -> Interval:
    return rate_difference(first - second, CONFIDENCE)


def _unpaired(first: np.ndarray, second: np.ndarray) -> Interval:
    """Of two sets of questions: Newcombe (1998), method 10, from both rates' Wilson intervals."""
    one, other = rate_interval(first, CONFIDENCE), rate_interval(second, CONFIDENCE)
    mean = one.mean - other.mean
    below = math.hypot(one.mean - one.low, other.high - other.mean)
    above = math.hypot(one.high - one.mean, other.mean - other.low)
    return Interval(mean, mean - below, mean + above)
