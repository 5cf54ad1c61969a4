"""Encoders: texts to unit vectors. Which one, `index.dense.encoder` says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import numpy as np

FOLDER = "encoder"  # of an index; takes what the encoder needs to be opened again


class Encoder(Interface):
    """Texts to vectors of length 1; many threads may encode at a time."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of index texts, shape (texts, dimensions), float32."""
        ...

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of queries, shape (texts, dimensions), float32."""
        ...

    def save(self, folder: Path) -> None:
        """Write what the encoder needs to be opened again."""
        ...


def open_encoder(index: Path, manifest: dict[str, Any]) -> Encoder:
    """The encoder with which an index was built, for its queries.

    Raises:
        InputError: its model cannot be loaded here, or is another one now.
    """
    parameters = manifest["parts"]["encoder"]
    if parameters["encoder"] == "ngrams":
        from tasks.retrieval.encoders.ngrams import Ngrams

        return Ngrams.open(index / FOLDER, parameters["ngrams"])
    from tasks.retrieval.encoders.sentences import Sentences

    return Sentences.open(index / FOLDER, parameters)
