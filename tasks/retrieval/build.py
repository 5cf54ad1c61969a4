"""Build an index folder: the passages, BM25, faiss, and a manifest that is written last.

An index text is title and text. Equal corpora and parameters give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.retrieval import passages

MANIFEST = "manifest.json"
_KEYS = {"corpus_sha256", "passages", "bm25", "dense", "versions"}
_PACKAGES = ("bm25s", "faiss-cpu", "scikit-learn", "numpy", "scipy", "pyarrow")


def build(corpus: Path, folder: Path, params: Any, say: Callable[[str], None]) -> dict[str, Any]:
    """Index the passages of a corpus.

    Args:
        corpus: parquet with id, title, text, url.
        folder: takes the index; exists.
        params: the parameters' section `index`: `bm25` and `dense` are used.
        say: takes lines of progress.

    Returns:
        the manifest.

    Raises:
        InputError: the corpus is empty, lacks a column or repeats an id.
    """
    from tasks.retrieval import bm25, dense

    table = passages.read_corpus(corpus)
    passages.write(table, folder)
    titles, bodies = table["title"].to_pylist(), table["text"].to_pylist()
    texts = [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]
    say(f"BM25 over {len(texts)} passages")
    bm25.build(texts, folder, k1=params.bm25.k1, b=params.bm25.b)
    say(f"dense over {len(texts)} passages")
    dense.build(texts, folder, dimensions=params.dense.dimensions, ngrams=params.dense.ngrams, say=say)
    manifest = {
        "corpus_sha256": hashlib.sha256(corpus.read_bytes()).hexdigest(),
        "passages": len(texts),
        "bm25": params.bm25.model_dump(),
        "dense": params.dense.model_dump(),
        "versions": {name: version(name) for name in _PACKAGES},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an index folder.

    Raises:
        InputError: it is missing or not whole, so the folder is no finished index.
    """
    path, mend = folder / MANIFEST, "build it with `dvc repro index`"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no index here", where=str(path), mend=mend) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}", where=str(path), mend=mend) from None
    missing = _KEYS - set(manifest) if isinstance(manifest, dict) else _KEYS
    if missing:
        raise InputError(f"the manifest lacks {sorted(missing)[0]!r}", where=str(path), mend=mend)
    return dict(manifest)
