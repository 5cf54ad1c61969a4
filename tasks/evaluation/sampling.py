"""Figures of sampled rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def pass_at_k(successes: Sequence[bool], k: int) -> float:
    """Unbiased estimate of the chance that one of k samples succeeds: 1 - C(n - c, k) / C(n, k).

    Source: Chen et al., "Evaluating Large Language Models Trained on Code" (2021), equation 1.

    Args:
        successes: outcomes of n >= k samples of one question.
        k: number of samples drawn.

    Raises:
        ValueError: fewer than k samples.
    """
    n, correct = len(successes), sum(successes)
    if n < k:
        raise ValueError(f"pass@{k} needs at least {k} samples, got {n}")
    return 1.0 - comb(n - correct, k) / comb(n, k)
