"""The one interface behind which the indexes lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from tasks.errors import InputError
from tasks.retrieval import build
from tasks.retrieval.passages import Passage, Passages


@dataclass(frozen=True)
class Hit:
    """A passage that was found, as it is shown, and its score: BM25's, or a cosine."""

    passage: Passage
    score: float


class Engine(Interface):
    """What ranks the rows of the corpus for a query."""

    def search(self, query: str, topk: int) -> list[tuple[int, float]]:
        """Rows and scores, best first; none where nothing matches."""
        ...


class Retriever:
    """Searches an index."""

    def __init__(self, engine: Engine, passages: Passages, passage_words: int) -> None:
        self._engine, self._passages, self._words = engine, passages, passage_words

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """The best passages of each query, best first, cut to `passage_words` words; none where nothing matches."""
        return [
            [Hit(self._passages.at(row).cut(self._words), score) for row, score in self._engine.search(query, topk)]
            for query in queries
        ]

    def passage(self, key: str) -> Passage:
        """The passage with an id, whole.

        Raises:
            InputError: there is none.
        """
        return self._passages.by_id(key)

    def __len__(self) -> int:
        return len(self._passages)


def load(index: Path, retrieval: Any) -> Retriever:
    """Open an index folder.

    Args:
        index: the folder that `build.build` wrote.
        retrieval: the parameters' section `retrieval`: `retriever` and `passage_words` are used.

    Raises:
        InputError: the folder is no whole index.
    """
    manifest = build.read_manifest(index)
    return Retriever(_engine(index, retrieval.retriever, manifest), Passages(index), retrieval.passage_words)


def _engine(index: Path, name: str, manifest: dict[str, Any]) -> Engine:
    # Each engine is imported only where it is used: scikit-learn alone takes seconds in every worker.
    if name == "bm25":
        from tasks.retrieval.bm25 import Bm25

        return Bm25(index)
    if name == "faiss":
        from tasks.retrieval.dense import Dense

        return Dense(index, manifest["faiss"]["ngrams"])
    raise InputError(f"no retriever {name!r}", where="retrieval.retriever", mend="retrievers are: bm25, faiss")
