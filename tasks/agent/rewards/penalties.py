"""Penalties on how the policy went about it: turns, and queries that repeat each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tasks.agent.rewards.answers import normalise


def step_penalty(turns: int, growth: Literal["linear", "quadratic"]) -> float:
    """-turns or -turns², at most 0; `turns` counts generated turns, the answer's as well."""
    return 0.0 - (turns if growth == "linear" else turns**2)


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence of two sequences of words, in O(n m)."""
    row = [0] * (len(other) + 1)
    for word in one:
        diagonal = 0
        for column, rival in enumerate(other, start=1):
            above = row[column]
            row[column] = diagonal + 1 if word == rival else max(above, row[column - 1])
            diagonal = above
    return row[-1]


def rouge_l(one: Sequence[str], other: Sequence[str]) -> float:
    """Rouge-L F-measure of two sequences of words, in [0, 1]; symmetric, 1.0 when they are equal.

    F = 2PR / (P + R) with R = LCS / m and P = LCS / n, which is 2 LCS / (m + n). Two empty sequences are equal.

    Source: Lin 2004, equations 2 to 4, with beta = 1.
    """
    words = len(one) + len(other)
    return 2 * common_subsequence(one, other) / words if words else 1.0


def repeated_queries(queries: Sequence[str], threshold: float) -> float:
    """Minus the sum, over all queries after the first, of how close each comes to an earlier one, in [1 - n, 0].

    A query's closeness is its highest `rouge_l` with an earlier query, on words normalised as answers are; below
    `threshold` it counts as 0, since the queries of one question share words with good reason.

    Args:
        queries: of one episode, in order; n of them.
        threshold: in (0, 1].
    """
    words = [normalise(query).split() for query in queries]
    closest = (max(rouge_l(query, earlier) for earlier in words[:n]) for n, query in enumerate(words) if n)
    return 0.0 - sum(close for close in closest if close >= threshold)
