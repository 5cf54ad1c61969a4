"""A faiss index over a lexical encoder that needs no model.

The vectors are hashed character n-grams, weighted by tf-idf, brought to `dimensions` by a sparse random
projection and normalised. They know spelling, not meaning: near spellings and word forms match, synonyms
do not. A stand-in for an embedding model behind the same interface, and weaker than BM25 by recall.

Sources: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009); Li, Hastie and
Church, "Very Sparse Random Projections" (2006).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import faiss
import numpy as np
import scipy.sparse as sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.random_projection import SparseRandomProjection

FOLDER = "dense"
_FEATURES = 2**18
_BATCH = 4096
# The projection is part of the encoder, not of an experiment: it stays the same under every seed.
_PROJECTION_SEED = 0
# Of 256 dimensions, 8 an n-gram: at sklearn's default of 1/512 most n-grams fall into none.
_DENSITY = 1 / 32


class Encoder:
    """Texts to unit vectors; a text without a single n-gram becomes the zero vector.

    Args:
        ngrams: shortest and longest n-gram, in characters.
        idf: weight of each hashed n-gram, shape (features,).
        projection: shape (features, dimensions).
    """

    def __init__(self, ngrams: Sequence[int], idf: np.ndarray, projection: sparse.csr_matrix) -> None:
        self._hashing, self._projection = _hashing(ngrams), projection
        self._weights = TfidfTransformer(norm=None, sublinear_tf=True)
        self._weights.idf_ = idf

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of shape (texts, dimensions), float32."""
        return self.encode_counts(self._hashing.transform(texts))

    def encode_counts(self, counts: sparse.csr_matrix) -> np.ndarray:
        """Vectors of n-gram counts of shape (texts, features)."""
        vectors = (self._weights.transform(counts) @ self._projection).toarray()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _hashing(ngrams: Sequence[int]) -> HashingVectorizer:
    return HashingVectorizer(
        analyzer="char_wb",
        ngram_range=tuple(ngrams),
        n_features=_FEATURES,
        strip_accents="unicode",
        alternate_sign=False,
        norm=None,
        dtype=np.float32,
    )


def build(
    texts: Sequence[str], folder: Path, *, dimensions: int, ngrams: Sequence[int], say: Callable[[str], None]
) -> None:
    """Index texts into `folder / "dense"`: idf.npy, projection.npz, index.faiss."""
    target = folder / FOLDER
    target.mkdir(parents=True)
    hashing, batches = _hashing(ngrams), []
    for start in range(0, len(texts), _BATCH):
        batches.append(hashing.transform(texts[start : start + _BATCH]))
        if start and start % (4 * _BATCH) == 0:
            say(f"faiss: {start} of {len(texts)} passages read")
    counts = sparse.vstack(batches, format="csr")
    idf = TfidfTransformer(norm=None, sublinear_tf=True).fit(counts).idf_.astype(np.float32)
    random = SparseRandomProjection(dimensions, density=_DENSITY, random_state=_PROJECTION_SEED)
    random.fit(sparse.csr_matrix((1, _FEATURES), dtype=np.float32))
    projection = random.components_.T.tocsr().astype(np.float32)
    encoder, index = Encoder(ngrams, idf, projection), faiss.IndexFlatIP(dimensions)
    for batch in batches:
        index.add(encoder.encode_counts(batch))
    np.save(target / "idf.npy", idf, allow_pickle=False)
    sparse.save_npz(target / "projection.npz", projection, compressed=False)
    faiss.write_index(index, str(target / "index.faiss"))


class Dense:
    """The faiss index of a folder."""

    def __init__(self, folder: Path, ngrams: Sequence[int]) -> None:
        source = folder / FOLDER
        idf = np.load(source / "idf.npy", allow_pickle=False)
        self._encoder = Encoder(ngrams, idf, sparse.load_npz(source / "projection.npz"))
        self._index = faiss.read_index(str(source / "index.faiss"), faiss.IO_FLAG_MMAP_IFC)

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and cosines of the best passages above 0 of each query; none for an empty one."""
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[tuple[int, float]]:
        """One query.

        One query at a time: faiss multiplies larger batches in another order, and near ties would change places.
        """
        scores, rows = self._index.search(self._encoder.encode([query]), topk)
        return [
            (int(row), float(score)) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0 and score > 0
        ]
