"""Whether a candidate is worse than the present champion, by the questions that both answered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

LEVEL = 0.05  # one-sided level at which `worse` is believed


@dataclass(frozen=True)
class Comparison:
    """Candidate minus champion over `n` shared questions; `p` is the sign test's, for the candidate being worse."""

    n: int
    difference: float
    better: int
    worse: int
    p: float

    @property
    def significantly_worse(self) -> bool:
        """Whether the champion is to stay."""
        return self.n > 0 and self.p < LEVEL

    def __str__(self) -> str:
        return (
            f"against the champion on {self.n} shared questions: {self.difference:+.3f} "
            f"({self.better} better, {self.worse} worse, p = {self.p:.3g})"
        )


def compare(candidate: Mapping[str, float], champion: Mapping[str, float]) -> Comparison:
    """Paired comparison of per-question success; ties tell nothing to the sign test (Dixon and Mood, 1946)."""
    differences = [candidate[question] - champion[question] for question in candidate.keys() & champion.keys()]
    better = sum(difference > 0 for difference in differences)
    worse = sum(difference < 0 for difference in differences)
    mean = sum(differences) / len(differences) if differences else 0.0
    return Comparison(len(differences), mean, better, worse, sign_test(worse, better + worse))


def sign_test(count: int, n: int) -> float:
    """Exact probability of at least `count` heads in `n` throws of a fair coin (scipy takes 2 s to import)."""
    return sum(math.comb(n, k) for k in range(count, n + 1)) / 2**n
