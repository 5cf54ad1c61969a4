"""Build an index folder: the passages, the parts, and a manifest that is written last.

An index text is title and text. Equal corpora and parameters give equal bytes. Vectors, which are what takes long,
are made shard by shard: a build that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.files import write_json
from tasks.retrieval import manifest, passages

_PACKAGES = ("bm25s", "faiss-cpu", "scikit-learn", "numpy", "scipy", "pyarrow")
_ENCODER = ("encoder", "dtype", "query_prefix", "passage_prefix", "ngrams", "dimensions")


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
    from tasks.retrieval import bm25, dense
    from tasks.retrieval.encoders import FOLDER, ngrams

    table = passages.read_corpus(corpus)
    passages.write(table, folder)
    titles, bodies = table["title"].to_pylist(), table["text"].to_pylist()
    texts = [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]
    digest = hashlib.sha256(corpus.read_bytes()).hexdigest()
    parts: dict[str, Any] = {}
    if "bm25" in params.build:
        say(f"BM25 over {len(texts)} passages")
        bm25.build(texts, folder, k1=params.bm25.k1, b=params.bm25.b, stemmer=params.bm25.stemmer)
        parts["bm25"] = params.bm25.model_dump()
    if "dense" in params.build:
        say(f"dense over {len(texts)} passages")
        hashing = ngrams.hashing(params.dense.ngrams)
        counts = [hashing.transform(texts[at : at + 4096]) for at in range(0, len(texts), 4096)]
        encoder = ngrams.Ngrams.fit(params.dense.ngrams, params.dense.dimensions, counts)
        (folder / FOLDER).mkdir()
        encoder.save(folder / FOLDER)
        import numpy as np

        dense.build(np.concatenate([encoder.vectors(shard) for shard in counts]), folder, params.dense, say)
        parts["dense"] = params.dense.model_dump()
        parts["encoder"] = {key: parts["dense"][key] for key in _ENCODER}
    for part, parameters in parts.items():
        manifest.write_part(folder / part, digest, parameters)
    written = {
        "corpus_sha256": digest,
        "passages": len(texts),
        "parts": parts,
        "versions": {name: version(name) for name in _PACKAGES},
    }
    write_json(folder / manifest.FILE, written)
    return written
