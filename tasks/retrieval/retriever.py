"""The one interface behind which the indexes and the remote back ends lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from tasks.errors import InputError
from tasks.params import searching
from tasks.retrieval.index import manifest
from tasks.retrieval.index.passages import Passage, Passages


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
        # Row by row: Arrow's `take` over a batch costs more than it saves.
        return [[Hit(self.passage(row), score) for row, score in found] for found in self.rank(queries, topk)]

    def rank(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and scores of each query, for whoever has the passages already."""
        return self._engine.search(queries, topk)

    def passage(self, row: int) -> Passage:
        """The passage of a row, whole."""
        return self._passages.at(row)

    def session(self) -> LocalRetriever:
        return self


def open_retriever(index: Path | None, retrieval: Any, corpus_sha256: str | None = None) -> Retriever:
    """Open what the section `retrieval` names: the index in this process, a server, or a remote back end.

    Args:
        index: the folder that `build.build` wrote; None where there is none.
        retrieval: the section of that name; where `server` says `start`, an address has been put in.
        corpus_sha256: the corpus that is meant; an index of another one is refused. None: whichever it is of.

    Raises:
        InputError: there is no such index, it is not whole or of another corpus, the retriever's part was not built,
            or the server is not ready.
    """
    # Each one is imported only where it is used: scikit-learn alone takes seconds in every worker.
    if retrieval.server is not None:
        from tasks.retrieval.client.searching import open_client

        return open_client(retrieval.server, retrieval, corpus_sha256)
    if retrieval.retriever == "wikipedia":
        from tasks.retrieval.wikipedia import open_wikipedia

        return open_wikipedia(retrieval)
    if index is None:
        raise InputError("there is no index to search", where="retrieval.retriever", mend="name ingest.corpus")
    found = manifest.read(index)
    manifest.require(found, index, retrieval.retriever, corpus_sha256)
    if retrieval.retriever == "qdrant":
        from tasks.retrieval.qdrant import open_qdrant

        return open_qdrant(index, retrieval, found)
    return LocalRetriever(
        _engine(index, retrieval.retriever, found, retrieval), Passages(index, found["corpus_sha256"])
    )


def _engine(index: Path, name: searching.Name, found: dict[str, Any], retrieval: Any) -> Engine:
    if name == "bm25":
        from tasks.retrieval.engines.bm25 import Bm25

        return Bm25(index, found["parts"]["bm25"]["stemmer"])
    if name == "dense":
        from tasks.retrieval.engines.dense import open_dense

        return open_dense(index, found)
    from tasks.retrieval.engines.hybrid import Hybrid

    bm25, dense = (_engine(index, one, found, retrieval) for one in ("bm25", "dense"))
    return Hybrid(bm25, dense, k=retrieval.hybrid.k, dense_weight=retrieval.hybrid.dense_weight)
