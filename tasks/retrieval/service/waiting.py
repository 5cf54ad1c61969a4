"""Queries that wait for a worker: a bounded queue out of which batches are taken, across requests.

Nothing waits for company: an idle worker gets what is there, and what comes while all are at work makes up the next
batches. Queries of a request that has ended, answered or not, are never taken.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from tasks.retrieval.service.wire import Answer, Item

TRIES = 3  # workers that are asked for a query, if they are lost over it; the last is asked for it alone


class EndedError(Exception):
    """A request's end without an answer."""


class FullError(EndedError):
    """The queue has no room for the request."""


class ExpiredError(EndedError):
    """The request's deadline has passed."""


class GoneError(EndedError):
    """Whoever asked has gone away."""


class NotNowError(EndedError):
    """What searches cannot answer now."""


class FailedError(EndedError):
    """A search went wrong."""


class Job:
    """A request under way.

    Args:
        count: of its queries.

    Attributes:
        contents: JSON of each query's documents, in the order of the queries; None while there is none.
        waiting: queries in the queue.
        since: when it came; time.perf_counter.
    """

    __slots__ = ("_future", "_left", "contents", "since", "waiting")

    def __init__(self, count: int) -> None:
        self.contents: list[bytes | None] = [None] * count
        self.waiting = 0
        self.since = time.perf_counter()
        self._left = count
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._future.done()

    def put(self, place: int, content: bytes) -> None:
        """The answer to one of its queries; one that has it already keeps it."""
        if not self.over and self.contents[place] is None:
            self.contents[place] = content
            self._left -= 1
            if not self._left:
                self._future.set_result(None)

    def fail(self, error: EndedError) -> None:
        """End it without an answer, unless it has ended."""
        if not self.over:
            self._future.set_exception(error)

    def abandon(self) -> None:
        """End it, unless it has ended: nobody waits for it any more."""
        self._future.cancel()

    async def wait(self) -> bytes:
        """The whole answer.

        Raises:
            EndedError: there is none.
        """
        await self._future
        return b",".join(content for content in self.contents if content is not None)


class Query:
    """One query of a job."""

    __slots__ = ("item", "job", "place", "tries")

    def __init__(self, item: Item, job: Job, place: int) -> None:
        self.item, self.job, self.place = item, job, place
        self.tries = 0

    def take(self, answer: Answer) -> None:
        """Pass an answer on to the job."""
        state, content = answer
        if state == "found":
            self.job.put(self.place, content)
        else:
            kind = NotNowError if state == "unavailable" else FailedError
            self.job.fail(kind(content.decode(errors="replace")))


class Queue:
    """Queries in the order in which they came.

    Args:
        size: most queries that may wait.
        on_wait: called with the seconds that a request's queries have waited, as they are taken.
    """

    def __init__(self, size: int, on_wait: Callable[[float], None] = lambda seconds: None) -> None:
        self.size = size
        self._on_wait = on_wait
        self._queries: deque[Query] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._takers = 0
        self._length = 0

    def __len__(self) -> int:
        """Queries that wait, without those of requests that have ended."""
        return self._length

    def put(self, queries: Sequence[Query]) -> None:
        """Let a request's queries wait.

        Raises:
            FullError: there is no room for all of them.
        """
        if self._length + len(queries) > self.size:
            raise FullError(f"{self._length:,} queries wait, and {self.size:,} may")
        self._queries.extend(queries)
        self._enter(queries)
        if len(self._queries) > 2 * self.size:  # ended ones are left in it until their turn comes
            self._queries = deque(query for query in self._queries if not query.job.over)

    def give_back(self, queries: Sequence[Query]) -> None:
        """Let queries wait once more, before all others: the worker that had them was lost."""
        again = []
        for query in queries:
            query.tries += 1
            if query.tries >= TRIES:
                query.job.fail(NotNowError(f"{TRIES} workers were lost over a query"))
            elif not query.job.over:
                again.append(query)
        self._queries.extendleft(reversed(again))
        self._enter(again)

    def ended(self, job: Job) -> None:
        """A job has ended: what of it still waits takes no more room."""
        self._length -= job.waiting
        job.waiting = 0

    def _enter(self, queries: Sequence[Query]) -> None:
        for query in queries:
            query.job.waiting += 1
        self._length += len(queries)
        for _ in range(min(len(queries), len(self._idle))):
            waiter = self._idle.popleft()
            if not waiter.done():  # its time was up at this very moment
                waiter.set_result(None)

    async def take(self, most: int, seconds: float) -> list[Query]:
        """A batch as soon as there is one; an empty one where there was none for so many seconds."""
        if not self._length:
            self._takers += 1
            try:
                async with asyncio.timeout(seconds):
                    while not self._length:
                        await self._work()
            except TimeoutError:
                return []
            finally:
                self._takers -= 1
        # Others who wait for work get their share.
        return self._batch(min(most, math.ceil(self._length / (1 + self._takers))))

    async def _work(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        finally:
            with suppress(ValueError):  # it was taken out to be woken
                self._idle.remove(waiter)

    def _batch(self, most: int) -> list[Query]:
        batch: list[Query] = []
        last: Job | None = None
        now = time.perf_counter()
        while self._queries and len(batch) < most:
            query = self._queries[0]
            suspect = query.tries == TRIES - 1
            if suspect and batch and not query.job.over:
                break
            self._queries.popleft()
            if query.job.over:
                continue
            batch.append(query)
            query.job.waiting -= 1
            self._length -= 1
            if query.job is not last:
                last = query.job
                self._on_wait(now - last.since)
            if suspect:
                break
        return batch
