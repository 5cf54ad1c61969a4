"""BM25's inner loop, compiled: sums of the words' scores, and the best rows. Importing it imports numba.

bm25s has such a kernel too, but its order of equal scores follows from a heap, and its parallel form must not be
called by several threads at a time. This one is serial and leaves the GIL: threads are the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from queue import SimpleQueue

import numpy as np
from numba import njit

from tasks.retrieval.engines import threads

BLOCK = 64
# A thread is worth its start, some 50 us, from this many queries on.
LEAST = 8


class Kernel:
    """Ranks passages for queries; many threads may use one.

    Args:
        starts: where each word's passages start, shape (words + 1,).
        rows: passages of each word, int32.
        scores: the word's score in each of them, float32, above 0.
        passages: how many there are.
    """

    def __init__(self, starts: np.ndarray, rows: np.ndarray, scores: np.ndarray, passages: int) -> None:
        # A memory map is a class of its own to numba; a view of it as a plain array is still the map.
        self._postings = tuple(np.asarray(array) for array in (starts, rows, scores))
        self._threads = threads.count()
        self._pool = ThreadPoolExecutor(max(1, self._threads - 1), thread_name_prefix="bm25")
        # As many sums as threads: whoever searches beyond that waits, and memory stays bounded.
        self._sums: SimpleQueue[np.ndarray] = SimpleQueue()
        for _ in range(self._threads):
            self._sums.put(np.zeros(-(-passages // BLOCK) * BLOCK, dtype=np.float32))

    def rank(self, queries: Sequence[Sequence[int]], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and scores of the best passages of each query, given as ids of its words."""
        shares = max(1, min(self._threads, len(queries) // LEAST))
        bounds = [len(queries) * share // shares for share in range(shares + 1)]
        own, *others = (queries[start:end] for start, end in pairwise(bounds))
        futures = [self._pool.submit(self._rank, share, topk) for share in others]
        found = self._rank(own, topk)
        for future in futures:
            found += future.result()
        return found

    def _rank(self, queries: Sequence[Sequence[int]], topk: int) -> list[list[tuple[int, float]]]:
        words = np.fromiter(chain.from_iterable(queries), dtype=np.int32)
        ends = np.cumsum([len(query) for query in queries], dtype=np.int64)
        rows = np.empty((len(queries), topk), dtype=np.int32)
        scores = np.empty((len(queries), topk), dtype=np.float32)
        sums = self._sums.get()
        try:
            rank(words, ends, *self._postings, sums, rows, scores)
        finally:
            self._sums.put(sums)
        return [
            [pair for pair in zip(*lists, strict=True) if pair[0] >= 0]
            for lists in zip(rows.tolist(), scores.tolist(), strict=True)
        ]


@njit(nogil=True, cache=True)
def rank(
    words: np.ndarray,
    ends: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    scores: np.ndarray,
    sums: np.ndarray,
    best_rows: np.ndarray,
    best_scores: np.ndarray,
) -> None:
    """Rank the passages for some queries; equal scores keep the corpus's order.

    Args:
        words: ids of the queries' words, one query after the other, int32.
        ends: where each query's words end, shape (queries,), int64.
        starts: where each word's passages start, shape (words + 1,).
        rows: passages of each word, int32.
        scores: the word's score in each of them, float32, above 0.
        sums: zeros, and zeros again on return; float32; its length is a multiple of BLOCK, of at least as many as
            there are passages.
        best_rows: takes the rows, best first, shape (queries, topk), int32; -1 where there are no more.
        best_scores: takes their scores, float32.
    """
    topk = best_rows.shape[1]
    # Floats that are not negative are ordered as their bits are, and the largest of a block of integers is found by
    # vector instructions.
    bits = sums.view(np.int32)
    first = 0
    for query in range(len(ends)):
        for word in words[first : ends[query]]:
            for at in range(starts[word], starts[word + 1]):
                sums[rows[at]] += scores[at]
        first = ends[query]
        found_rows, found_scores = best_rows[query], best_scores[query]
        found, least = 0, np.int32(0)
        for block in range(0, len(sums), BLOCK):
            largest = np.int32(0)
            for row in range(block, block + BLOCK):
                largest = max(largest, bits[row])
            if largest <= least:
                continue
            for row in range(block, block + BLOCK):
                if bits[row] <= least:
                    continue
                place = min(found, topk - 1)
                while place > 0 and found_scores[place - 1] < sums[row]:
                    found_scores[place], found_rows[place] = found_scores[place - 1], found_rows[place - 1]
                    place -= 1
                found_scores[place], found_rows[place] = sums[row], row
                found = min(found + 1, topk)
                if found == topk:
                    least = found_scores.view(np.int32)[topk - 1]
        found_rows[found:] = -1
        sums[:] = 0
