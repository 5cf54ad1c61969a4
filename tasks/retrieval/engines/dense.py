"""Dense search: an encoder's vectors in a faiss index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.retrieval.encoders import Encoder, open_encoder

if TYPE_CHECKING:
    import faiss

FOLDER = "dense"


def build(vectors: np.ndarray, folder: Path, dense: Any) -> dict[str, Any]:
    """Index vectors of shape (passages, dimensions) into `folder / "dense"`; returns the part's parameters."""
    from tasks.retrieval.engines import faiss_index

    (folder / FOLDER).mkdir()
    return faiss_index.build(vectors, folder / FOLDER, dense)


def open_dense(folder: Path, manifest: dict[str, Any]) -> Dense:
    """The dense part of an index folder.

    Raises:
        InputError: its encoder cannot be opened.
    """
    from tasks.retrieval.engines import faiss_index

    # The encoder first: PyTorch and faiss each bring an OpenMP of their own, and the first one loaded sets both up.
    encoder = open_encoder(folder, manifest)
    index = faiss_index.open_index(folder / FOLDER, manifest["parts"]["dense"])
    return Dense(encoder, index, alone=manifest["parts"]["encoder"]["encoder"] == "ngrams")


class Dense:
    """Searches a faiss index with an encoder's vectors; many threads may search at a time.

    Args:
        encoder: of the queries.
        index: of the passages.
        alone: whether each query is compared by itself. faiss multiplies a batch of 20 or more in another order, and
            near ties would change places with who else is in the batch; an encoder whose vectors depend on the batch
            has no use for that.
    """

    def __init__(self, encoder: Encoder, index: faiss.Index, *, alone: bool) -> None:
        self._encoder, self._index, self._alone = encoder, index, alone

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        """Rows and cosines of the best passages above 0 of each query; none for a blank one."""
        asked = [number for number, query in enumerate(queries) if query.strip()]
        found: list[list[tuple[int, float]]] = [[] for _ in queries]
        if asked:
            rows, scores = self._compare(self._encoder.queries([queries[number] for number in asked]), topk)
            for number, *ranking in zip(asked, rows.tolist(), scores.tolist(), strict=True):
                found[number] = [(row, score) for row, score in zip(*ranking, strict=True) if row >= 0 and score > 0]
        return found

    def _compare(self, vectors: np.ndarray, topk: int) -> tuple[np.ndarray, np.ndarray]:
        batches = np.split(vectors, len(vectors)) if self._alone else [vectors]
        scores, rows = zip(*(self._index.search(batch, topk) for batch in batches), strict=True)
        return np.concatenate(rows), np.concatenate(scores)
