"""BM25, built by bm25s and searched memory-mapped: workers share its pages and start at once.

Scores are Lucene's variant: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean)).
Source: Kamphuis et al., "Which BM25 do you mean?" (2020), the form bm25s calls `lucene`. A word's score in a passage
is worked out when the index is built (Lù, "BM25S", 2024); a query's score is the sum over its words, in their order.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np

from tasks.errors import InputError
from tasks.retrieval.engines.ranking import best
from tasks.retrieval.engines.words import Words
from tasks.retrieval.index import manifest

FOLDER = "bm25"
# Passages from which numba searches. It costs each process 0.6 s of a core and 115 MB, three quarters of that pages
# that processes share. Measured, a query takes 0.22 ms by numpy and 0.06 by numba on 2,000 passages, 0.37 and 0.08 on
# 10,000, 0.88 and 0.18 on 47,748: from here on it has paid after 2,000 queries.
COMPILED_FROM = 10_000
_DEEP = 1000  # the kernel keeps its best rows in order as it finds them, which is for few of them
_KEPT = 100_000  # words whose id is kept


def _import_bm25s() -> ModuleType:
    """bm25s without JAX: where JAX is installed, the import would start it and take the accelerator's memory."""
    before = sys.modules.get("jax.lax")
    sys.modules["jax.lax"] = cast(ModuleType, None)
    try:
        import bm25s
    finally:
        del sys.modules["jax.lax"]
        if before is not None:
            sys.modules["jax.lax"] = before
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s


def build(texts: Iterable[str], folder: Path, *, k1: float, b: float, stemmer: str | None) -> None:
    """Index texts into `folder / "bm25"`.

    Raises:
        InputError: the texts hold no word at all.
    """
    words = Words(stemmer)
    # Ids in order of first occurrence. bm25s would number stems in the order of a set, which differs from process to
    # process.
    vocabulary: dict[str, int] = {}
    known: dict[str, int] = {}
    rows = []
    for text in texts:
        row = []
        for word in words.split(text):
            number = known.get(word)
            if number is None:
                form = words.form(word)
                number = known[word] = -1 if form is None else vocabulary.setdefault(form, len(vocabulary))
            if number >= 0:
                row.append(number)
        rows.append(row)
    if not vocabulary:
        raise InputError("the passages hold no words to search for")
    bm25s = _import_bm25s()
    model = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    model.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    model.save(folder / FOLDER, show_progress=False)


class Bm25:
    """The BM25 index of a folder; many threads may search at a time.

    Args:
        folder: of the index.
        stemmer: with which it was built.
        compiled: whether numba searches; None: where it pays.

    Raises:
        InputError: a file of it is missing or not whole.
    """

    def __init__(self, folder: Path, stemmer: str | None, *, compiled: bool | None = None) -> None:
        source = folder / FOLDER
        # The files are read here and not by bm25s, whose import alone takes a second and 100 MB, numba's.
        with manifest.reading(source):
            self._vocabulary = json.loads((source / "vocab.index.json").read_text(encoding="utf-8"))
            self._passages = json.loads((source / "params.index.json").read_text(encoding="utf-8"))["num_docs"]
            self._starts, self._rows, self._scores = (
                np.load(source / f"{name}.csc.index.npy", mmap_mode="r", allow_pickle=False)
                for name in ("indptr", "indices", "data")
            )
        self._words, self._lock = Words(stemmer), threading.Lock()
        self._id = lru_cache(_KEPT)(self._look_up)
        self._kernel = None
        if self._passages >= COMPILED_FROM if compiled is None else compiled:
            from tasks.retrieval.engines.bm25_kernel import Kernel

            # Python's full collections would walk numba's 100,000 objects again and again: a fifth of the time of
            # calls of 1,000 queries.
            gc.collect()
            gc.freeze()
            self._kernel = Kernel(self._starts, self._rows, self._scores, self._passages)

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and scores of the best passages of each query; none for one without a known word."""
        topk = min(topk, self._passages)
        ids = [[number for word in self._words.split(query) if (number := self._id(word)) >= 0] for query in queries]
        if self._kernel is not None and topk <= _DEEP:
            return self._kernel.rank(ids, topk)
        return [self._rank(query, topk) for query in ids]

    def _look_up(self, word: str) -> int:
        with self._lock:  # a stemmer is not for several threads
            form = self._words.form(word)
        return -1 if form is None else self._vocabulary.get(form, -1)

    def _rank(self, query: Sequence[int], topk: int) -> list[tuple[int, float]]:
        sums = np.zeros(self._passages, dtype=np.float32)
        for word in query:
            found = slice(self._starts[word], self._starts[word + 1])
            sums[self._rows[found]] += self._scores[found]  # a word has a passage once
        return best(sums, topk)
