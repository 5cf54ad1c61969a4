"""The workers of the retrieval service: each takes a batch at a time, and one that is lost is started anew."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NoReturn

from tasks.errors import InputError
from tasks.retrieval.service.searching import Opened
from tasks.retrieval.service.waiting import Query, Queue
from tasks.retrieval.service.workers import Worker, WorkerLostError

log = logging.getLogger("forager.retrieval")

OPENING = 300.0  # seconds to import what the retriever needs and to open an index, which may be large
REOPENING = 60.0  # seconds to open it once more
MOST_BATCH = 256  # queries; fewer where they would take longer than ...
LONG_BATCH = 0.5  # ... so many seconds: a hung worker is found out by how long it takes
LEAST_BATCH = 8
BEAT = 1.0  # seconds without work after which a worker is asked whether it is there
STALL = 1.5  # seconds that a reply may take beside what its queries should ...
SLOWNESS = 2.0  # ... and how many times slower than usual they may be
_WEIGHT = 0.1  # of the newest batch in the pace


class _Slot:
    """A worker and its successors."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self.make, self.worker = make, make()
        self.ready = False
        self.pace = 0.0  # seconds a query, of late

    @property
    def most(self) -> int:
        """Queries of a batch."""
        return max(LEAST_BATCH, min(MOST_BATCH, int(LONG_BATCH / max(self.pace, 1e-6))))

    def learn(self, seconds: float, queries: int) -> None:
        self.pace += _WEIGHT * (seconds / queries - self.pace)


class Pool:
    """Workers of one kind, and the queue that they work off.

    Args:
        make: makes a worker, not started yet.
        count: how many.
        queue: of the queries.
        on_batch: called with a batch that was answered, and the seconds that took.
        on_answer: called with each query that was answered, and what was found.
        on_loss: called with the queries that a lost worker had.

    Attributes:
        opened: what the index is, once a worker has opened it.
        restarts: workers that were lost.
    """

    def __init__(
        self,
        make: Callable[[], Worker],
        count: int,
        queue: Queue,
        *,
        on_batch: Callable[[list[Query], float], None],
        on_answer: Callable[[Query, bytes], None],
        on_loss: Callable[[list[Query]], None],
    ) -> None:
        self._slots = [_Slot(make) for _ in range(count)]
        self._queue = queue
        self._on_batch, self._on_answer, self._on_loss = on_batch, on_answer, on_loss
        self.opened: Opened | None = None
        self.restarts = 0

    @property
    def workers(self) -> int:
        """How many workers there are to be."""
        return len(self._slots)

    @property
    def ready(self) -> int:
        """How many of them can search."""
        return sum(slot.ready for slot in self._slots)

    def seconds(self, queries: int) -> float:
        """How long so many queries will take, by what they took of late; 0 while nothing is known."""
        rate = sum(1 / slot.pace for slot in self._slots if slot.ready and slot.pace)
        return queries / rate if rate else 0.0

    async def start(self) -> None:
        """Start all workers.

        Raises:
            InputError: the index cannot be opened, or is not open in time.
        """
        opening = [asyncio.create_task(self._open(slot, OPENING)) for slot in self._slots]
        try:
            await asyncio.gather(*opening)
        except (TimeoutError, WorkerLostError) as error:
            why = str(error) or f"not open after {OPENING:.0f} s"
            raise InputError(f"a worker of the retrieval server did not start: {why}") from error
        finally:
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)

    async def run(self) -> NoReturn:
        """Have the started workers work the queue off, until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            for slot in self._slots:
                group.create_task(self._tend(slot))
        raise AssertionError  # none of them ends

    async def close(self) -> None:
        """End all workers."""
        await asyncio.gather(*(slot.worker.kill() for slot in self._slots))

    async def _open(self, slot: _Slot, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            opened = await slot.worker.open()
        if self.opened is None:
            self.opened = opened
        elif opened.corpus_sha256 != self.opened.corpus_sha256:
            raise WorkerLostError("the index is of another corpus by now: start the server anew")
        slot.pace, slot.ready = opened.pace, True

    async def _tend(self, slot: _Slot) -> NoReturn:
        while True:
            batch = await self._queue.take(slot.most, BEAT)
            try:
                await self._search(slot, batch)
            except (TimeoutError, WorkerLostError) as error:
                log.warning("a worker is started anew: %s", str(error) or "it took too long")
                slot.ready = False
                self.restarts += 1
                self._on_loss(batch)
                self._queue.give_back(batch)
                await self._replace(slot)

    async def _search(self, slot: _Slot, batch: list[Query]) -> None:
        start = time.perf_counter()
        # A reply that takes longer comes from a worker that is stopped or hangs: others can answer in its place.
        async with asyncio.timeout(STALL + SLOWNESS * slot.pace * len(batch)):
            answers = await slot.worker.search([query.item for query in batch])
        if not batch:
            return
        seconds = time.perf_counter() - start
        slot.learn(seconds, len(batch))
        self._on_batch(batch, seconds)
        for query, answer in zip(batch, answers, strict=True):
            query.take(answer)
            if answer[0] == "found":
                self._on_answer(query, answer[1])

    async def _replace(self, slot: _Slot) -> None:
        while not slot.ready:
            await slot.worker.kill()
            slot.worker = slot.make()
            try:
                await self._open(slot, REOPENING)
            except (TimeoutError, WorkerLostError, InputError) as error:
                log.warning("a worker did not start: %s", str(error) or "not open in time")
                await asyncio.sleep(1.0)
