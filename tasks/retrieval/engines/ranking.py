"""The best rows of a score array, the same on every machine."""

from __future__ import annotations

import numpy as np


def best(scores: np.ndarray, topk: int) -> list[tuple[int, float]]:
    """The `topk` rows with the highest scores above 0, best first; equal scores keep the corpus's order.

    A plain partition leaves the order of ties to the CPU's instruction set.

    Args:
        scores: shape (passages,).
        topk: how many rows are wanted.

    Returns:
        pairs of row and score, at most `topk`.
    """
    rows = np.flatnonzero(scores > 0)
    if len(rows) > topk:
        threshold = np.partition(scores[rows], -topk)[-topk]
        rows = rows[scores[rows] >= threshold]
    order = np.lexsort((rows, -scores[rows]))[:topk]
    return [(int(row), float(scores[row])) for row in rows[order]]
