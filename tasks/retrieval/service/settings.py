"""What the retrieval server serves, and which workers it has for that."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tasks.errors import InputError
from tasks.params import Retrieval
from tasks.params.searching import NEEDS
from tasks.retrieval.engines.bm25 import COMPILED_FROM
from tasks.retrieval.index import manifest
from tasks.retrieval.service.pool import OPENING
from tasks.retrieval.service.requests import MOST_TOPK
from tasks.retrieval.service.searching import Spec
from tasks.retrieval.service.workers import Nursery, ProcessWorker

QUEUE = 8192  # queries
CACHE = 256  # MiB
# What a worker would import when it opens the index; Arrow brings in pandas with the first passage.
_ENGINES = {
    "bm25": ("tasks.retrieval.engines.bm25", "pandas"),
    "dense": ("tasks.retrieval.engines.faiss_index", "pandas"),
    "hybrid": (
        "tasks.retrieval.engines.bm25",
        "tasks.retrieval.engines.hybrid",
        "tasks.retrieval.engines.faiss_index",
        "pandas",
    ),
    "qdrant": ("tasks.retrieval.qdrant", "qdrant_client"),
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Settings:
    """What a server serves.

    Attributes:
        spec: what each worker opens.
        workers: how many.
        queue: most queries that wait.
        seconds: deadline of a request.
        cache: MiB of answers that are remembered.
    """

    spec: Spec
    workers: int
    queue: int
    seconds: float
    cache: int

    @property
    def retriever(self) -> str:
        """Its name."""
        return str(self.spec.retrieval["retriever"])

    @property
    def topk(self) -> int:
        """Passages a query where a request does not say."""
        return int(self.spec.retrieval["topk"])

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> Settings:
        """The opposite of `dump`."""
        content = json.loads(line)
        return cls(**{**content, "spec": Spec(**content["spec"])})

    @classmethod
    def of(cls, retrieval: Retrieval, index: Path | None, *, queue: int = QUEUE, cache: int = CACHE) -> Settings:
        """What the section `retrieval` asks for.

        Raises:
            InputError: that cannot be served.
        """
        key = "retrieval.retriever"
        if index is None:
            raise InputError("there is no index to serve", where="retrieval.server", mend="name ingest.corpus")
        if retrieval.retriever == "wikipedia":
            raise InputError("the server searches an index, and 'wikipedia' has none", where=key)
        if retrieval.retriever == "qdrant" and retrieval.qdrant.url is None and retrieval.workers > 1:
            mend = "set retrieval.workers (--workers) to 1, or name a cluster in retrieval.qdrant.url"
            raise InputError("Qdrant in data/index serves one process at a time", where=key, mend=mend)
        if retrieval.topk > MOST_TOPK:
            raise InputError(f"at most {MOST_TOPK} passages a query", where="retrieval.topk")
        if queue < 1 or cache < 0:
            raise InputError("the queue must hold a query at least, and the cache no less than 0 MiB")
        spec = Spec(str(index.absolute()), retrieval.model_dump(mode="json"))
        return cls(spec, retrieval.workers, queue, retrieval.seconds, cache)

    def maker(self) -> tuple[Callable[[], ProcessWorker], Nursery]:
        """What makes a worker, and what all of them come from.

        Raises:
            InputError: there is no index.
        """
        facts = manifest.read(Path(self.spec.index))
        modules = [*_ENGINES[self.retriever]]
        if "bm25" in NEEDS[self.spec.retrieval["retriever"]] and facts["passages"] >= COMPILED_FROM:
            modules.append("tasks.retrieval.engines.bm25_kernel")
        encoder = facts["parts"].get("encoder")
        if encoder is not None and self.retriever != "bm25":
            ours = encoder["encoder"] == "ngrams"
            modules.append("tasks.retrieval.encoders.ngrams" if ours else "sentence_transformers")
        # Each worker has its share of the cores, or they would take turns at all of them.
        share = str(max(1, (os.cpu_count() or 1) // self.workers))
        environment = {**dict.fromkeys(_THREADS, share), "TOKENIZERS_PARALLELISM": "false", **os.environ}
        nursery = Nursery(modules, environment, OPENING)
        return lambda: ProcessWorker(self.spec, nursery), nursery
