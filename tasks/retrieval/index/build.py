"""Build an index folder: the passages, the parts, and a manifest that is written last.

An index text is title and text. Equal corpora and parameters give equal bytes. Vectors, which are what takes long,
are made shard by shard: a build that was killed goes on where it was.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from tasks.files import write_json
from tasks.params import searching
from tasks.retrieval.encoders import FOLDER
from tasks.retrieval.index import manifest, passages, vectors
from tasks.retrieval.index.progress import Progress

_ROWS = 4096  # read at a time
_PACKAGES = {"dense": "faiss-cpu", "qdrant": "qdrant-client"}


def build(
    corpus: Path,
    folder: Path,
    params: Any,
    say: Callable[[str], None],
    *,
    retrieval: Any = None,
    resume: Path | None = None,
) -> dict[str, Any]:
    """Index the passages of a corpus.

    Args:
        corpus: parquet with id, title, text, url.
        folder: takes the index; exists.
        params: the parameters' section `index`.
        say: takes lines of progress.
        retrieval: the parameters' section of that name; says where Qdrant is, where `index.build` lists it.
        resume: takes finished shards, so that another build of the same goes on from them; None: nothing is kept.

    Returns:
        the manifest.

    Raises:
        InputError: the corpus is empty, lacks a column or repeats an id, or an encoder cannot be had.
    """
    (folder / manifest.FILE).unlink(missing_ok=True)
    for part in (*get_args(searching.Built), FOLDER):
        shutil.rmtree(folder / part, ignore_errors=True)
    digest = manifest.sha256(corpus)
    passages.write(passages.read_corpus(corpus), folder, digest)
    stored = passages.Passages(folder)
    parts: dict[str, Any] = {}
    packages = {"pyarrow"}
    if "bm25" in params.build:
        _bm25(stored, folder, params.bm25, digest, say)
        parts["bm25"] = params.bm25.model_dump()
        packages |= {"bm25s", "numpy"}
    if {"dense", "qdrant"} & set(params.build):
        with contextlib.ExitStack() as stack:
            shards = resume or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".shards-", dir=folder)))
            parts |= _vectors(stored, folder, params, retrieval, digest, shards, say)
        packages |= {*vectors.packages(params.dense), *(_PACKAGES[part] for part in _PACKAGES if part in parts)}
    written = {
        "corpus_sha256": digest,
        "passages": len(stored),
        "parts": parts,
        "versions": {name: version(name) for name in sorted(packages)},
    }
    write_json(folder / manifest.FILE, written)
    return written


def _bm25(stored: passages.Passages, folder: Path, params: Any, digest: str, say: Callable[[str], None]) -> None:
    from tasks.retrieval.engines import bm25

    say(f"BM25 over {len(stored):,} passages")
    bm25.build(_read(stored, "BM25", say), folder, k1=params.k1, b=params.b, stemmer=params.stemmer)
    manifest.write_part(folder / bm25.FOLDER, digest, params.model_dump())


def _read(stored: passages.Passages, what: str, say: Callable[[str], None]) -> Iterator[str]:
    progress = Progress(what, len(stored), say)
    for start in range(0, len(stored), _ROWS):
        texts = stored.texts(start, start + _ROWS)
        yield from texts
        progress.step(len(texts), start + len(texts))


def _vectors(
    stored: passages.Passages,
    folder: Path,
    params: Any,
    retrieval: Any,
    digest: str,
    shards: Path,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The parts that need vectors; returns their parameters."""
    say(f"vectors of {len(stored):,} passages by {params.dense.encoder}")
    made = vectors.make(stored.texts, len(stored), folder, params.dense, digest, shards, say)
    encoder = vectors.parameters(params.dense)
    manifest.write_part(folder / FOLDER, digest, encoder)
    parts: dict[str, Any] = {FOLDER: encoder}
    if "dense" in params.build:
        from tasks.retrieval.engines import dense

        say(f"faiss, {params.dense.faiss}, over {made.shape[0]:,} vectors of {made.shape[1]}")
        parts["dense"] = dense.build(made, folder, params.dense)
        manifest.write_part(folder / dense.FOLDER, digest, parts["dense"])
    if "qdrant" in params.build:
        from tasks.retrieval import qdrant

        say(f"Qdrant over {made.shape[0]:,} vectors")
        qdrant.build(made, passages.open_table(folder), folder, retrieval, digest, say, encoder=encoder)
        parts["qdrant"] = retrieval.qdrant.model_dump()
    return parts
