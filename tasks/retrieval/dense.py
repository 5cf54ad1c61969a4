"""Dense search: an encoder's vectors in a faiss index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from tasks.retrieval.encoders import Encoder, open_encoder

FOLDER = "dense"
FILE = "index.faiss"


def build(vectors: np.ndarray, folder: Path, dense: Any, say: Callable[[str], None]) -> None:
    """Index vectors of shape (passages, dimensions) into `folder / "dense"`."""
    target = folder / FOLDER
    target.mkdir(parents=True)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    faiss.write_index(index, str(target / FILE))


def open_dense(folder: Path, manifest: dict[str, Any]) -> Dense:
    """The faiss index of a folder, and its encoder."""
    index = faiss.read_index(str(folder / FOLDER / FILE), faiss.IO_FLAG_MMAP_IFC)
    return Dense(open_encoder(folder, manifest), index)


class Dense:
    """Searches a faiss index with an encoder's vectors."""

    def __init__(self, encoder: Encoder, index: faiss.Index) -> None:
        self._encoder, self._index = encoder, index

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and cosines of the best passages above 0 of each query; none for an empty one."""
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[tuple[int, float]]:
        """One query.

        One query at a time: faiss multiplies larger batches in another order, and near ties would change places.
        """
        scores, rows = self._index.search(self._encoder.queries([query]), topk)
        return [
            (int(row), float(score)) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0 and score > 0
        ]
