"""Two engines fused by rank.

Source: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods" (2009): a passage's score is the sum of weight / (k + rank) over the engines that found it. Their k is 60, for
lists of 1,000 where no rank counts for much, and they weigh all engines alike. Here few passages are shown, so the
first ranks must count: docs/retrieval.md has what k and weight were chosen on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.retrieval.retriever import Engine

DEPTH = 100  # passages of each engine that are fused; a passage below counts as not found


def fuse(
    rankings: Sequence[Sequence[tuple[int, float]]], weights: Sequence[float], k: int, topk: int
) -> list[tuple[int, float]]:
    """Fuse rankings of rows; equal sums keep the corpus's order.

    Args:
        rankings: pairs of row and score, best first; only their order counts.
        weights: one a ranking.
        k: as above.
        topk: how many rows are wanted.

    Returns:
        pairs of row and sum of reciprocal ranks, at most `topk`, best first.
    """
    sums: dict[int, float] = defaultdict(float)
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, (row, _) in enumerate(ranking, start=1):
            sums[row] += weight / (k + rank)
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:topk]


class Hybrid:
    """Searches with BM25 and by vectors, and fuses what they find.

    Args:
        bm25: weighs 1.
        dense: the other engine.
        k: as above.
        dense_weight: what the other engine weighs.
    """

    def __init__(self, bm25: Engine, dense: Engine, *, k: int, dense_weight: float) -> None:
        self._engines, self._weights, self._k = (bm25, dense), (1.0, dense_weight), k

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and sums of reciprocal ranks of the best passages of each query."""
        depth = max(DEPTH, topk)
        found = [engine.search(queries, depth) for engine in self._engines]
        return [fuse(rankings, self._weights, self._k, topk) for rankings in zip(*found, strict=True)]
