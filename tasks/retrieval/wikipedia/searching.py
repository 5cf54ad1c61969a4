"""Wikipedia's search behind the interface of the retrievers."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.errors import InputError, UnavailableError
from tasks.params.searching import WIKIPEDIA_PAGES
from tasks.processes import MARK
from tasks.retrieval.calls import in_time
from tasks.retrieval.index.passages import Passage
from tasks.retrieval.retriever import Hit
from tasks.retrieval.wikipedia.api import Api, Calls
from tasks.retrieval.wikipedia.connection import connect
from tasks.retrieval.wikipedia.page_cache import Answers, PageCache
from tasks.retrieval.wikipedia.replies import Page, plain

MOST_CALLS = 2  # a question
CACHE = Path(".forager/wikipedia/pages-1.sqlite")  # of the workspace; the number is that of the form of its entries


def open_wikipedia(retrieval: Any) -> Wikipedia:
    """Open the API that the section `retrieval` names; nothing is called yet.

    Raises:
        InputError: the endpoint is not HTTPS, there is no contact, too many pages are wanted, or the environment
            names what is no proxy or no CA bundle.
    """
    section, topk = retrieval.wikipedia, retrieval.topk
    if topk > WIKIPEDIA_PAGES:
        raise InputError(f"Wikipedia brings at most {WIKIPEDIA_PAGES} pages a call, not {topk}", where="retrieval.topk")
    cache = PageCache(Path(os.environ.get(MARK, ".")) / CACHE)
    return Wikipedia(section.endpoint, section.contact, retrieval.seconds, cache)


class Wikipedia:
    """Searches Wikipedia; see `Retriever`. A search that is no session's has the calls of one question.

    `counters` has the searches, those that the cache answered (cached), and those that failed: late (past the
    deadline), paused, spent; the calls, and those that failed: busy, status, reply, network, timeout; and the answers
    of which something is missing (partial).

    Args:
        endpoint: address of the `api.php`.
        contact: an address that Wikimedia can write to.
        seconds: deadline of a search.
        cache: of answers.
    """

    def __init__(self, endpoint: str, contact: str | None, seconds: float, cache: PageCache) -> None:
        self.counters: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._endpoint, self._seconds, self._answers = endpoint, seconds, Answers(endpoint, cache)
        self._api = Api(endpoint, connect(endpoint, contact, seconds), self._answers, self._count)

    def session(self) -> Session:
        """A view for one question, which has two calls."""
        return Session(self, Calls(MOST_CALLS))

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return self.session().search(queries, topk)

    def find(self, queries: Sequence[str], topk: int, calls: Calls) -> list[list[Hit]]:
        """Search with the calls that are left of a question's; see `Retriever.search`."""
        if topk > WIKIPEDIA_PAGES:
            raise InputError(f"Wikipedia brings at most {WIKIPEDIA_PAGES} pages a call, not {topk}", where="topk")
        deadline = time.monotonic() + self._seconds
        return [self._find(plain(query), topk, calls, deadline) for query in queries]

    def _find(self, query: str, topk: int, calls: Calls, deadline: float) -> list[Hit]:
        self._count("searches")
        if not query:
            return []
        pages = self._answers.look_up(query, topk)
        if pages is not None:
            self._count("cached")
        else:
            pages = self._call(query, topk, calls, deadline)
        # The API ranks and does not score: the reciprocal of the rank stands for a score.
        return [
            Hit(Passage(str(page.id), page.title, page.text or "", page.url), 1 / rank)
            for rank, page in enumerate(pages, 1)
        ]

    def _call(self, query: str, topk: int, calls: Calls, deadline: float) -> list[Page]:
        try:
            calls.require()
        except UnavailableError:
            self._count("spent")
            raise
        try:
            return in_time(self._api.search(query, topk, calls, deadline), deadline - time.monotonic())
        except TimeoutError:
            self._count("late")
            raise UnavailableError(f"no answer of {self._endpoint} within {self._seconds:g} s") from None

    def _count(self, kind: str) -> None:
        with self._counting:
            self.counters[kind] += 1


class Session:
    """A question's searches; see `Retriever`."""

    def __init__(self, wikipedia: Wikipedia, calls: Calls) -> None:
        self._wikipedia, self._calls = wikipedia, calls

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return self._wikipedia.find(queries, topk, self._calls)

    def session(self) -> Session:
        return self
