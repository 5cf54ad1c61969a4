"""Search a collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.encoders import Encoder, open_encoder
from tasks.retrieval.index.passages import Passage
from tasks.retrieval.qdrant.clients import FOLDER, MEND, Cluster, Embedded, require_library
from tasks.retrieval.retriever import Hit


def open_qdrant(index: Path, retrieval: Any, manifest: Mapping[str, Any]) -> Qdrant:
    """Open the collection of an index, embedded or on the cluster.

    Args:
        index: the index folder.
        retrieval: the section of that name.
        manifest: of the index; the collection must be of its corpus, its encoder and its number of passages.

    Raises:
        InputError: there is no such collection, it is another one or not whole, another process has it open, or the
            cluster cannot be reached, or the client is not installed.
    """
    require_library()
    client = Embedded(index / FOLDER) if retrieval.qdrant.url is None else Cluster(retrieval)
    collection, found = client.collection(retrieval.qdrant.collection)
    where, mend = str(index / FOLDER), MEND
    if retrieval.qdrant.url is not None:
        # What lies on a cluster is not seen by DVC, to which the stage has been run.
        where, mend = f"{retrieval.qdrant.url}, {collection}", "send it anew: `dvc repro --force --single-item index`"
    if not found:
        raise InputError(f"no collection {retrieval.qdrant.collection!r}", where=where, mend=mend)
    wanted = {
        "corpus_sha256": manifest["corpus_sha256"],
        "encoder": manifest["parts"]["encoder"],
        "passages": manifest["passages"],
    }
    for key, value in wanted.items():
        if found.get(key) != value:
            have, want = (str(one)[:60] for one in (found.get(key), value))
            raise InputError(f"the collection's {key} is {have}, and the index's {want}", where=where, mend=mend)
    if found["points"] != manifest["passages"]:
        raise InputError(
            f"the collection holds {found['points']} of {manifest['passages']} passages", where=where, mend=mend
        )
    return Qdrant(client, collection, open_encoder(index, dict(manifest)))


class Qdrant:
    """Searches a collection; see `Retriever`."""

    def __init__(self, client: Embedded | Cluster, collection: str, encoder: Encoder) -> None:
        self._client, self._collection, self._encoder = client, collection, encoder

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        from qdrant_client import models

        if not queries:
            return []
        requests = [
            models.QueryRequest(query=vector, limit=topk, with_payload=True)
            for vector in self._encoder.queries(queries).tolist()
        ]
        replies = self._client.ask(self._collection, requests)
        if len(replies) != len(queries):
            raise UnavailableError(f"qdrant answered {len(replies)} of {len(queries)} queries")
        found = []
        for reply in replies:
            # Equal scores keep the corpus's order; where they straddle the last place, Qdrant chooses.
            points = sorted((point for point in reply.points if point.score > 0), key=lambda p: (-p.score, p.id))
            found.append([Hit(_passage(point.payload), point.score) for point in points])
        return found

    def session(self) -> Qdrant:
        return self


def _passage(payload: Mapping[str, Any] | None) -> Passage:
    payload = payload or {}
    id, title, text, url = (payload.get(key) for key in ("id", "title", "text", "url"))
    if not (isinstance(id, str) and isinstance(title, str) and isinstance(text, str)):
        raise UnavailableError("qdrant answered with a point that is no passage")
    return Passage(id, title, text, url if isinstance(url, str) else None)
