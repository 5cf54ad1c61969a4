"""Write a collection: into an index folder, or to a cluster."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import InputError
from tasks.retrieval.qdrant.clients import FOLDER, connection, explained, require_library

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from qdrant_client import QdrantClient, models

_BATCH = 256  # points a request
_PIECE = 4 * _BATCH  # points between lines of progress
_SECONDS = 60  # of a request
_RETRIES = 3  # of a request
_SAY_SECONDS = 5.0


def build(
    vectors: np.ndarray,
    table: pa.Table,
    folder: Path,
    retrieval: Any,
    corpus_sha256: str,
    say: Callable[[str], None],
    *,
    encoder: Mapping[str, Any],
) -> None:
    """Write a collection: into `folder / "qdrant"`, or to the cluster that `retrieval.qdrant.url` names.

    On a cluster the points go into a collection of a name of their own; when it is whole, the alias
    `retrieval.qdrant.collection` is switched to it. What the alias named before stays, since somebody may be
    searching it.

    Args:
        vectors: of length 1, shape (passages, dimensions), float32; may be memory-mapped.
        table: id, title, text, url of as many passages.
        folder: of the index; exists.
        retrieval: the section of that name.
        corpus_sha256: the corpus's hash, kept with the collection.
        say: takes lines of progress.
        encoder: parameters of what made the vectors, kept with the collection.

    Raises:
        InputError: the client is not installed, or the cluster does not take it.
    """
    require_library()
    about = {"corpus_sha256": corpus_sha256, "encoder": dict(encoder), "passages": table.num_rows}
    name, url = retrieval.qdrant.collection, retrieval.qdrant.url
    if url is not None:
        _build_on_cluster(vectors, table, name, url, about, say)
        return
    from qdrant_client import QdrantClient

    aside = folder / f".{FOLDER}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    # The client waits for the disk after every point: a temporary folder is often in memory, or TMPDIR can name one.
    with tempfile.TemporaryDirectory(prefix="forager-qdrant-") as temporary:
        client = QdrantClient(path=temporary)
        try:
            _fill(client, name, vectors, table, about, say)
        finally:
            client.close()
        shutil.copytree(temporary, aside)
    os.replace(aside, folder / FOLDER)


def _build_on_cluster(
    vectors: np.ndarray, table: pa.Table, alias: str, url: str, about: dict[str, Any], say: Callable[[str], None]
) -> None:
    from qdrant_client import QdrantClient, models

    # Equal corpora and encoders have one name: what a killed build has left there is begun anew.
    name = f"{alias}-{hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]}"
    client = QdrantClient(**connection(url, _SECONDS))
    try:
        with explained(url):
            aliases = {one.alias_name: one.collection_name for one in client.get_aliases().aliases}
            before = aliases.get(alias)
            if before is None and client.collection_exists(alias):
                raise InputError(
                    f"the cluster has a collection {alias!r}, so no alias can have this name",
                    where="retrieval.qdrant.collection",
                    mend="choose another name",
                )
            if before is not None and before.startswith(name):
                if client.count(before, exact=True).count == table.num_rows:
                    say(f"qdrant: {before} is on the cluster already")
                    return
                # It has lost points, and whoever searches it shall not see it fill up.
                name = f"{name}-{uuid.uuid4().hex[:8]}"
            if client.collection_exists(name):
                client.delete_collection(name)
            _fill(client, name, vectors, table, about, say)
            switch: list[Any] = [
                models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
            ]
            if before is not None:
                switch.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
                say(f"qdrant: the collection {before} stays; delete it when nobody searches it")
            client.update_collection_aliases(switch)
    finally:
        client.close()


def _fill(
    client: QdrantClient,
    name: str,
    vectors: np.ndarray,
    table: pa.Table,
    about: dict[str, Any],
    say: Callable[[str], None],
) -> None:
    from qdrant_client import models

    size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT)
    client.create_collection(name, vectors_config=size, metadata=about)
    if (client.get_collection(name).config.metadata or {}) != about:
        raise InputError("this Qdrant keeps no metadata of a collection", where="retrieval.qdrant.url", mend="renew it")
    start = said = time.monotonic()
    # By pieces: embedded, the client makes a list of all that it is given at once.
    for at in range(0, table.num_rows, _PIECE):
        points = _points(vectors[at : at + _PIECE], table.slice(at, _PIECE), at)
        client.upload_points(name, points, batch_size=_BATCH, max_retries=_RETRIES, wait=True)
        done, now = min(at + _PIECE, table.num_rows), time.monotonic()
        if now - said >= _SAY_SECONDS:
            rate = done / (now - start)
            left = (table.num_rows - done) / rate
            say(f"qdrant: {done:,} of {table.num_rows:,} passages, {rate:,.0f}/s, {left:,.0f} s left")
            said = now


def _points(vectors: np.ndarray, table: pa.Table, first: int) -> Iterator[models.PointStruct]:
    from qdrant_client import models

    passages = table.select(["id", "title", "text", "url"]).to_pylist()
    for row, (passage, vector) in enumerate(zip(passages, vectors.tolist(), strict=True), first):
        yield models.PointStruct(id=row, vector=vector, payload={"row": row, **passage})
