"""The sections `retrieval` and `index`; params/defaults.yaml says what each key means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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


class Index(Section):
    build: Annotated[list[Built], Field(min_length=1)]
    bm25: Bm25
    dense: Dense
    recall_questions: Positive


class Qdrant(Section):
    url: str | None
    collection: Annotated[str, Field(min_length=1)]


class Wikipedia(Section):
    endpoint: str
    contact: str | None


class Retrieval(Section):
    retriever: Name
    topk: Positive
    server: str | None
    workers: Positive
    seconds: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]
    qdrant: Qdrant
    wikipedia: Wikipedia
