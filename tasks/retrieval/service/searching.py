"""What a worker holds: the opened index, searched in batches, each query's documents as JSON."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tasks.errors import UnavailableError
from tasks.params import Retrieval
from tasks.retrieval import manifest
from tasks.retrieval.retriever import Hit, open_retriever
from tasks.retrieval.service.wire import Answer, Item

log = logging.getLogger("forager.retrieval")

_TRIAL = "the quick brown fox jumps over the lazy dog"


@dataclass(frozen=True)
class Spec:
    """What each worker opens.

    Attributes:
        index: folder of the index; None where there is none.
        retrieval: the section of that name as plain values.
    """

    index: str | None
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
        index = None if spec.index is None else Path(spec.index)
        retrieval = Retrieval.model_validate({**spec.retrieval, "server": None})
        self._retriever = open_retriever(index, retrieval)
        assert index is not None  # or the line above had refused it
        facts = manifest.read(index)
        self._retriever.search([_TRIAL], retrieval.topk)  # the first search loads and compiles
        start = time.perf_counter()
        self._retriever.search([_TRIAL], retrieval.topk)
        self.opened = Opened(facts["corpus_sha256"], facts["passages"], time.perf_counter() - start)

    def answer(self, items: Sequence[Item]) -> list[Answer]:
        """An answer for each query, in their order; one that fails is one that says so."""
        answers: list[Answer] = [_dump([], False)] * len(items)
        for topk in {item.topk for item in items}:
            places = [n for n, item in enumerate(items) if item.topk == topk and item.query.strip()]
            if places:
                found = self._search([items[n] for n in places], topk)
                for place, answer in zip(places, found, strict=True):
                    answers[place] = answer
        return answers

    def _search(self, items: list[Item], topk: int) -> list[Answer]:
        try:
            found = self._retriever.search([item.query for item in items], topk)
            return [_dump(hits, item.scores) for hits, item in zip(found, items, strict=True)]
        except UnavailableError as error:
            return [Answer("unavailable", str(error).encode())] * len(items)
        except Exception:
            if len(items) > 1:  # one of them may be to blame: the others have their answers
                return [answer for item in items for answer in self._search([item], topk)]
            log.exception("a search failed: %r", items[0].query)
            return [Answer("failed", b"the search failed; the server's log says why")]


def _dump(hits: Sequence[Hit], scores: bool) -> Answer:
    documents = [
        {"id": passage.id, "title": passage.title, "contents": f'"{passage.title}"\n{passage.text}'}
        for passage in (hit.passage for hit in hits)
    ]
    if not scores:
        return Answer("found", orjson.dumps(documents))
    scored = [{"document": one, "score": hit.score} for one, hit in zip(documents, hits, strict=True)]
    return Answer("found", orjson.dumps(scored))
