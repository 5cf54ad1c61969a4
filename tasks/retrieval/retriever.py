"""The one interface behind which the indexes and the remote back ends lie."""

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
    """A passage that was found, and its score: BM25's, a cosine, or a sum of reciprocal ranks."""

    passage: Passage
    score: float


class Retriever(Interface):
    """Finds passages; many threads may search at a time."""

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """The best passages of each query, whole, best first; none where nothing matches.

        Raises:
            UnavailableError: whoever searches cannot answer now.
        """
        ...

    def session(self) -> Retriever:
        """A view for one episode: where calls are counted by question, it counts its own."""
        ...


class Engine(Interface):
    """What ranks the rows of the corpus; many threads may search at a time."""

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and scores of each query, best first; none where nothing matches."""
        ...


class LocalRetriever:
    """Searches an index folder in this process; see `Retriever`."""

    def __init__(self, engine: Engine, passages: Passages) -> None:
        self._engine, self._passages = engine, passages

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return [
            [Hit(self._passages.at(row), score) for row, score in found] for found in self._engine.search(queries, topk)
        ]

    def session(self) -> LocalRetriever:
        return self


def open_retriever(index: Path | None, retrieval: Any) -> Retriever:
    """Open what the section `retrieval` names: the index in this process, a server, or a remote back end.

    Args:
        index: the folder that `build.build` wrote; None where there is none.
        retrieval: the section of that name; where `server` says `start`, an address has been put in.

    Raises:
        InputError: there is no such index, it is not whole or of another corpus, or the server is not ready.
    """
    if index is None:
        raise InputError("there is no index to search", where="retrieval.retriever", mend="name ingest.corpus")
    manifest = build.read_manifest(index)
    return LocalRetriever(_engine(index, retrieval.retriever, manifest), Passages(index))


def _engine(index: Path, name: str, manifest: dict[str, Any]) -> Engine:
    # Each engine is imported only where it is used: scikit-learn alone takes seconds in every worker.
    if name == "bm25":
        from tasks.retrieval.bm25 import Bm25

        return Bm25(index)
    if name == "dense":
        from tasks.retrieval.dense import Dense

        return Dense(index, manifest["dense"]["ngrams"])
    raise InputError(f"no retriever {name!r}", where="retrieval.retriever", mend="retrievers are: bm25, dense")
