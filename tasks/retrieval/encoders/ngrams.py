"""A lexical encoder that needs no model.

The vectors are hashed character n-grams, weighted by tf-idf, brought to `dimensions` by a sparse random
projection and normalised. They know spelling, not meaning: near spellings and word forms match, synonyms
do not. A stand-in for an embedding model behind the same interface, and weaker than BM25 by recall.

Sources: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009); Li, Hastie and
Church, "Very Sparse Random Projections" (2006).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.random_projection import SparseRandomProjection

from tasks.retrieval.index import manifest

_FEATURES = 2**18
# The projection is part of the encoder, not of an experiment: it stays the same under every seed.
_PROJECTION_SEED = 0
# Of 256 dimensions, 8 an n-gram: at sklearn's default of 1/512 most n-grams fall into none.
_DENSITY = 1 / 32


class Ngrams:
    """Texts to unit vectors; a text without a single n-gram becomes the zero vector.

    Args:
        ngrams: shortest and longest n-gram, in characters.
        idf: weight of each hashed n-gram, shape (features,).
        projection: shape (features, dimensions).
    """

    def __init__(self, ngrams: Sequence[int], idf: np.ndarray, projection: sparse.csr_matrix) -> None:
        self._hashing, self._projection = hashing(ngrams), projection
        self._weights = TfidfTransformer(norm=None, sublinear_tf=True)
        self._weights.idf_ = self._idf = idf

    @classmethod
    def fit(cls, ngrams: Sequence[int], dimensions: int, counts: Iterable[sparse.csr_matrix]) -> Ngrams:
        """An encoder whose weights are of a corpus.

        Args:
            ngrams: shortest and longest n-gram, in characters.
            dimensions: of a vector.
            counts: n-gram counts of the corpus by shards, each of shape (texts, features).
        """
        texts, frequency = 0, np.zeros(_FEATURES, dtype=np.int64)
        for shard in counts:
            texts += shard.shape[0]
            frequency += np.bincount(shard.indices, minlength=_FEATURES)
        # What TfidfTransformer.fit computes, in its dtype, from counts that need not lie in memory together.
        idf = (np.log((texts + 1) / (frequency.astype(np.float32) + 1)) + 1).astype(np.float32)
        random = SparseRandomProjection(dimensions, density=_DENSITY, random_state=_PROJECTION_SEED)
        random.fit(sparse.csr_matrix((1, _FEATURES), dtype=np.float32))
        return cls(ngrams, idf, random.components_.T.tocsr().astype(np.float32))

    @classmethod
    def open(cls, folder: Path, ngrams: Sequence[int]) -> Ngrams:
        """The encoder that `save` has written.

        Raises:
            InputError: a file of it is missing or not whole.
        """
        with manifest.reading(folder):
            idf = np.load(folder / "idf.npy", allow_pickle=False)
            projection = sparse.load_npz(folder / "projection.npz")
        return cls(ngrams, idf, projection)

    def save(self, folder: Path) -> None:
        """Write idf.npy and projection.npz."""
        np.save(folder / "idf.npy", self._idf, allow_pickle=False)
        sparse.save_npz(folder / "projection.npz", self._projection, compressed=False)

    @property
    def dimensions(self) -> int:
        return int(self._projection.shape[1])

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors(self._hashing.transform(texts))

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.passages(texts)

    def vectors(self, counts: sparse.csr_matrix) -> np.ndarray:
        """Vectors of n-gram counts of shape (texts, features)."""
        vectors = (self._weights.transform(counts) @ self._projection).toarray()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def hashing(ngrams: Sequence[int]) -> HashingVectorizer:
    """Texts to n-gram counts of shape (texts, features)."""
    return HashingVectorizer(
        analyzer="char_wb",
        ngram_range=tuple(ngrams),
        n_features=_FEATURES,
        strip_accents="unicode",
        alternate_sign=False,
        norm=None,
        dtype=np.float32,
    )
