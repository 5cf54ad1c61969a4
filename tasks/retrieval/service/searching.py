"""What a worker holds: the opened index, searched in batches, each query's documents as JSON."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from tasks.errors import UnavailableError
from tasks.params import Retrieval
from tasks.retrieval.index import manifest
from tasks.retrieval.index.passages import Passage
from tasks.retrieval.retriever import LocalRetriever, Retriever, open_retriever
from tasks.retrieval.service.wire import Answer, Group

log = logging.getLogger("forager.retrieval")

_NOTHING: Answer = ("found", b"[]")  # for a blank query
_DOCUMENTS = 1 << 16  # kept: about 64 MB of passages of 100 words
_TRIAL = "the quick brown fox jumps over the lazy dog"

Found = tuple[orjson.Fragment, float]  # a document's JSON, and its score


@dataclass(frozen=True)
class Spec:
    """What each worker opens.

    Attributes:
        index: folder of the index.
        retrieval: the section of that name as plain values.
    """

    index: str
    retrieval: dict[str, Any]

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> Spec:
        """The opposite of `dump`."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Opened:
    """What a worker says once it can search.

    Attributes:
        corpus_sha256: of the corpus that the index was built from.
        passages: how many it holds.
        pace: seconds that a query took, alone.
    """

    corpus_sha256: str
    passages: int
    pace: float


class Searcher:
    """An open index.

    Raises:
        InputError: there is no such index, or it cannot be opened.
        UnavailableError: what it needs elsewhere does not answer.
    """

    def __init__(self, spec: Spec) -> None:
        index = Path(spec.index)
        retrieval = Retrieval.model_validate({**spec.retrieval, "server": None})
        retriever = open_retriever(index, retrieval)
        facts = manifest.read(index)
        self._find = _finder(retriever)
        self._find([_TRIAL], retrieval.topk)  # the first search loads and compiles
        start = time.perf_counter()
        self._find([_TRIAL], retrieval.topk)
        self.opened = Opened(facts["corpus_sha256"], facts["passages"], time.perf_counter() - start)

    def answer(self, groups: Sequence[Group]) -> list[Answer]:
        """An answer for each query, in their order; one that fails is one that says so."""
        return [answer for topk, scores, queries in groups for answer in self._group(topk, scores, queries)]

    def _group(self, topk: int, scores: bool, queries: list[str]) -> list[Answer]:
        asked = [query for query in queries if query.strip()]
        found = iter(self._search(asked, topk, scores) if asked else ())
        return [next(found) if query.strip() else _NOTHING for query in queries]

    def _search(self, queries: list[str], topk: int, scores: bool) -> list[Answer]:
        try:
            found = self._find(queries, topk)
            if len(found) != len(queries):
                raise ValueError(f"{len(found)} results for {len(queries)} queries")
            return [("found", _dump(one, scores)) for one in found]
        except UnavailableError as error:
            return [("unavailable", str(error).encode())] * len(queries)
        except Exception:
            if len(queries) > 1:  # one of them may be to blame: the others have their answers
                return [answer for query in queries for answer in self._search([query], topk, scores)]
            log.exception("a search failed: %r", queries[0])
            return [("failed", b"the search failed; the server's log says why")]


def _dump(found: Sequence[Found], scores: bool) -> bytes:
    if scores:
        return orjson.dumps([{"document": document, "score": score} for document, score in found])
    return orjson.dumps([document for document, _ in found])


def _document(passage: Passage) -> orjson.Fragment:
    contents = f'"{passage.title}"\n{passage.text}'
    return orjson.Fragment(orjson.dumps({"id": passage.id, "title": passage.title, "contents": contents}))


def _finder(retriever: Retriever) -> Callable[[list[str], int], list[list[Found]]]:
    """What finds documents; those of an index are made once, and kept while they are found again."""
    if not isinstance(retriever, LocalRetriever):

        def anew(queries: list[str], topk: int) -> list[list[Found]]:
            return [[(_document(hit.passage), hit.score) for hit in hits] for hits in retriever.search(queries, topk)]

        return anew
    document = lru_cache(_DOCUMENTS)(lambda row: _document(retriever.passage(row)))

    def known(queries: list[str], topk: int) -> list[list[Found]]:
        return [[(document(row), score) for row, score in found] for found in retriever.rank(queries, topk)]

    return known
