"""The sections `retrieval` and `index`; params/defaults.yaml says what each key means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.sections import Float, Positive, Section

Built = Literal["bm25", "dense", "qdrant"]
Name = Literal["bm25", "dense", "hybrid", "qdrant", "wikipedia"]
# What the index must hold for a retriever to work.
NEEDS: dict[Name, frozenset[Built]] = {
    "bm25": frozenset(["bm25"]),
    "dense": frozenset(["dense"]),
    "hybrid": frozenset(["bm25", "dense"]),
    "qdrant": frozenset(["qdrant"]),
    "wikipedia": frozenset(),
}

WIKIPEDIA_PAGES = 20  # whose beginnings one call brings (TextExtracts, exlimit)


class Bm25(Section):
    k1: Float
    b: Annotated[float, Field(ge=0, le=1, strict=False)]
    stemmer: Literal["english"] | None


class Ivf(Section):
    lists: Positive
    probes: Positive


class Hnsw(Section):
    links: Annotated[int, Field(ge=2)]
    ef_construction: Positive
    ef_search: Positive


class Dense(Section):
    encoder: str
    dtype: Literal["float32", "bfloat16"]
    query_prefix: str
    passage_prefix: str
    ngrams: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    dimensions: Positive
    faiss: Literal["flat", "ivf", "hnsw"]
    ivf: Ivf
    hnsw: Hnsw

    @model_validator(mode="after")
    def _fits(self) -> Dense:
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError(f"ngrams: the shortest comes first, got {self.ngrams}")
        if self.ivf.probes > self.ivf.lists:
            raise ValueError(f"ivf.probes: more than ivf.lists, {self.ivf.lists}")
        return self


class Index(Section):
    build: Annotated[list[Built], Field(min_length=1)]
    bm25: Bm25
    dense: Dense
    recall_questions: Positive

    @model_validator(mode="after")
    def _once(self) -> Index:
        if len(set(self.build)) < len(self.build):
            raise ValueError(f"build: one is named twice in {self.build}")
        return self


class Qdrant(Section):
    url: str | None
    collection: Annotated[str, Field(min_length=1)]


class Wikipedia(Section):
    endpoint: str
    contact: str | None


class Hybrid(Section):
    k: Positive
    dense_weight: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]


class Retrieval(Section):
    retriever: Name
    topk: Positive
    server: str | None
    workers: Annotated[int, Field(gt=0, le=256)]
    seconds: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]
    hybrid: Hybrid
    qdrant: Qdrant
    wikipedia: Wikipedia


def faults(retrieval: Retrieval, index: Index, tool_seconds: float) -> Iterator[str]:
    """What the two sections say that cannot be: a line each, with key and mend.

    Args:
        retrieval: the section of that name.
        index: the section of that name.
        tool_seconds: what one call of a tool may take.
    """
    missing = sorted(NEEDS[retrieval.retriever] - set(index.build))
    if missing:
        yield (
            f"retrieval.retriever: {retrieval.retriever} needs {' and '.join(missing)}, which index.build does not list"
        )
    remote = retrieval.server is not None or retrieval.retriever in ("qdrant", "wikipedia")
    if remote and retrieval.seconds >= tool_seconds:
        yield (
            f"retrieval.seconds: {retrieval.seconds:g} must be less than one call may take, "
            f"episode.tool_seconds: {tool_seconds:g}"
        )
    encoder = index.dense.encoder
    if encoder not in ("ngrams", "minilm") and not encoder.startswith("hf:") and not Path(encoder).is_dir():
        yield f"index.dense.encoder: {encoder!r} is no folder; encoders are: ngrams, minilm, hf:ID, or a folder"
    url = retrieval.qdrant.url
    if url is not None and not re.match(r"https?://[^/\s]", url):
        yield f"retrieval.qdrant.url: {url!r} is no address; name one such as http://127.0.0.1:6333, or null"
    if retrieval.retriever == "wikipedia":
        contact = retrieval.wikipedia.contact or ""
        if not ("@" in contact or "://" in contact) or not contact.isprintable():
            yield "retrieval.wikipedia.contact: Wikimedia's rules ask for an address that it can write to; name yours"
        if retrieval.topk > WIKIPEDIA_PAGES:
            yield f"retrieval.topk: Wikipedia brings at most {WIKIPEDIA_PAGES} pages a call, not {retrieval.topk}"
        if not retrieval.wikipedia.endpoint.startswith("https://"):
            yield f"retrieval.wikipedia.endpoint: must start with https://, got {retrieval.wikipedia.endpoint!r}"
        if retrieval.server is not None:
            yield (
                "retrieval.server: with retriever wikipedia it must be null: calls are counted by question, "
                "and a server knows none"
            )
    embedded = retrieval.retriever == "qdrant" and retrieval.qdrant.url is None
    if embedded and retrieval.server == "start" and retrieval.workers > 1:
        yield "retrieval.workers: Qdrant in data/index is open to one process; set 1, or retrieval.qdrant.url"
