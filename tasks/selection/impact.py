"""Learning impact of training questions: LIMR (Li et al. 2025, arXiv 2502.11886, section 2.2). Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def impacts(shares: np.ndarray) -> np.ndarray:
    """How closely each question's learning curve follows that of all questions, shape (n,); 1 is the same curve.

    s_i = 1 - sum_k (r_ik - mean_k)^2 / sum_k (1 - mean_k)^2, where mean_k is the mean of r_ik over the questions. At
    most 1, and without a lower bound: where most are right, a question that never is has a large negative one.

    Where every question was right in every epoch the paper's denominator is 0. Nothing was left to learn then, so
    every impact is 0.

    Args:
        shares: r_ik in [0, 1], the share of successes of question i in epoch k; shape (n, epochs), n and epochs >= 1.
    """
    means = shares.mean(axis=0)
    scale = float(((1 - means) ** 2).sum())
    if scale == 0:
        return np.zeros(len(shares))
    return 1 - ((shares - means) ** 2).sum(axis=1) / scale


def ranked(ids: Sequence[str], values: np.ndarray) -> list[int]:
    """Numbers of the questions by falling impact; equal ones by their ids."""
    return sorted(range(len(ids)), key=lambda i: (-values[i], ids[i]))


def chosen(ids: Sequence[str], values: np.ndarray, *, theta: float, share: float | None) -> list[int]:
    """Numbers of the questions that are taken, by falling impact; equal ones by their ids.

    Args:
        ids: of the questions, all different.
        values: their impacts, shape (n,).
        theta: those of at least this impact are taken ...
        share: ... or, where it is given, the best so many of all, rounded, at least one.
    """
    order = ranked(ids, values)
    if share is not None:
        return order[: max(1, round(share * len(ids)))]
    return [i for i in order if values[i] >= theta]


def control(ids: Sequence[str], count: int, seed: int) -> list[int]:
    """Numbers of as many questions drawn at random, by their ids; the order of `ids` does not matter.

    Args:
        ids: of the questions, all different.
        count: how many, at most as many as there are.
        seed: of the draw.
    """
    order = sorted(range(len(ids)), key=lambda i: ids[i])
    drawn = np.random.default_rng(seed).choice(len(ids), count, replace=False)
    return [order[place] for place in sorted(drawn)]
