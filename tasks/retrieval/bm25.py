"""BM25, built by bm25s and searched memory-mapped: workers share its pages and start at once.

Scores are Lucene's variant: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean)).
Source: Kamphuis et al., "Which BM25 do you mean?" (2020), the form bm25s calls `lucene`. A word's score in a passage
is worked out when the index is built (Lù, "BM25S", 2024); a query's score is the sum over its words, in their order.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np

from tasks.errors import InputError
from tasks.retrieval.ranking import best
from tasks.retrieval.words import Words

FOLDER = "bm25"


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
        rows.append(np.array(row, dtype=np.int32))
    if not vocabulary:
        raise InputError("the passages hold no words to search for")
    bm25s = _import_bm25s()
    model = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    model.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    model.save(folder / FOLDER, show_progress=False)


class Bm25:
    """The BM25 index of a folder."""

    def __init__(self, folder: Path, stemmer: str | None) -> None:
        source = folder / FOLDER
        # The files are read here and not by bm25s, whose import alone takes a second and numba's 100 MB.
        self._vocabulary = json.loads((source / "vocab.index.json").read_text(encoding="utf-8"))
        self._count = json.loads((source / "params.index.json").read_text(encoding="utf-8"))["num_docs"]
        self._scores, self._rows, self._starts = (
            np.load(source / f"{name}.csc.index.npy", mmap_mode="r", allow_pickle=False)
            for name in ("data", "indices", "indptr")
        )
        self._words = Words(stemmer)

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and scores of the best passages of each query; none for one without a known word."""
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[tuple[int, float]]:
        ids = [self._vocabulary[word] for word in self._words(query) if word in self._vocabulary]
        scores = np.zeros(self._count, dtype=np.float32)
        for number in ids:
            at = slice(self._starts[number], self._starts[number + 1])
            scores[self._rows[at]] += self._scores[at]
        return best(scores, topk) if ids else []
