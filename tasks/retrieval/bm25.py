"""BM25 by bm25s, loaded memory-mapped: workers share its pages and start at once.

Scores are Lucene's variant: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean)).
Source: Kamphuis et al., "Which BM25 do you mean?" (2020), the form bm25s calls `lucene`.
Words are lower case and without accents; Lucene's English stop words are left out.
"""

from __future__ import annotations

import logging
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from tasks.errors import InputError
from tasks.retrieval.ranking import best

FOLDER = "bm25"
_WORD = r"(?u)\b\w+\b"


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


bm25s = _import_bm25s()


def _fold(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def words(text: str) -> list[str]:
    """The words by which a text is indexed and found."""
    tokens: list[str] = bm25s.tokenize([_fold(text)], token_pattern=_WORD, return_ids=False, show_progress=False)[0]
    return tokens


def build(texts: Sequence[str], folder: Path, *, k1: float, b: float) -> None:
    """Index texts into `folder / "bm25"`.

    Raises:
        InputError: the texts hold no word at all.
    """
    # Ids in order of first occurrence: from bare tokens bm25s would number them in the order of a set,
    # which differs from process to process.
    tokens = bm25s.tokenize([_fold(text) for text in texts], token_pattern=_WORD, show_progress=False)
    if not tokens.vocab:
        raise InputError("the passages hold no words to search for")
    model = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    model.index((tokens.ids, tokens.vocab), create_empty_token=False, show_progress=False)
    model.save(folder / FOLDER, show_progress=False)


class Bm25:
    """The BM25 index of a folder."""

    def __init__(self, folder: Path) -> None:
        self._model = bm25s.BM25.load(folder / FOLDER, mmap=True, show_progress=False)

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and scores of the best passages of each query; none for one without a known word."""
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[tuple[int, float]]:
        ids = self._model.get_tokens_ids(words(query))
        return best(self._model.get_scores_from_ids(ids), topk) if ids else []
