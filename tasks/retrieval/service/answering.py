"""From what a request asks to its answer: the cache, the queue, the deadline, the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tasks.retrieval.service.caching import Cache
from tasks.retrieval.service.metrics import Metrics
from tasks.retrieval.service.pool import Pool
from tasks.retrieval.service.requests import Asked
from tasks.retrieval.service.waiting import ExpiredError, FullError, Job, Query, Queue
from tasks.retrieval.service.workers import Worker


class Answering:
    """Answers requests.

    Args:
        make: makes a worker.
        workers: how many.
        queue: most queries that may wait for a worker.
        seconds: deadline of a request.
        cache: bytes that answers may take which are remembered; the least recently used go first.

    Attributes:
        pool: the workers; somebody else starts and closes them.
        metrics: what is counted.
    """

    def __init__(self, make: Callable[[], Worker], *, workers: int, queue: int, seconds: float, cache: int) -> None:
        self.seconds = seconds
        self._cache = Cache(cache)
        self._queue = Queue(queue, lambda waited: self.metrics.wait_seconds.observe(waited))
        self.pool = Pool(
            make, workers, self._queue, on_batch=self._count, on_answer=self._remember, on_loss=self._count_loss
        )
        self.metrics = Metrics(lambda: len(self._queue), lambda: self.pool.workers, lambda: self.pool.ready)

    @property
    def queue(self) -> int:
        """Most queries that may wait."""
        return self._queue.size

    async def answer(self, asked: Asked, until: float, watch: Callable[[Job], asyncio.Task[None]]) -> bytes:
        """The JSON of each query's documents, joined by commas.

        Args:
            asked: what is wanted.
            until: the deadline, in the loop's time.
            watch: starts to watch whether whoever asked is still there, and ends the job otherwise.

        Raises:
            EndedError: there is no answer.
        """
        job = Job(len(asked.queries))
        queries = []
        for place, text in enumerate(asked.queries):
            item = (text, asked.topk, asked.scores)
            known = self._cache.get(item)
            if known is None:
                queries.append(Query(item, job, place))
            else:
                job.put(place, known)
        if not queries:
            self._take_on(asked, queries)
            return await job.wait()
        loop = asyncio.get_running_loop()
        try:
            # Whoever cannot be served in time is told at once, and the queue never holds more than its deadlines allow.
            if self.pool.seconds(len(self._queue)) > until - loop.time():
                raise FullError(f"{len(self._queue):,} queries wait, too many for the deadline")
            self._queue.put(queries)
        except FullError:
            self.metrics.rejected.inc()
            raise
        self._take_on(asked, queries)
        timer = loop.call_at(until, self._expire, job)
        watching = watch(job)
        try:
            return await job.wait()
        finally:
            timer.cancel()
            watching.cancel()
            job.abandon()
            self._queue.ended(job)

    def _take_on(self, asked: Asked, missing: list[Query]) -> None:
        self.metrics.queries.inc(len(asked.queries))
        self.metrics.cache_hits.inc(len(asked.queries) - len(missing))
        self.metrics.cache_misses.inc(len(missing))

    def _expire(self, job: Job) -> None:
        if not job.over:
            self.metrics.deadline_misses.inc()
            job.fail(ExpiredError("the deadline has passed"))

    def _count(self, batch: list[Query], seconds: float) -> None:
        self.metrics.batch_queries.observe(len(batch))
        self.metrics.search_seconds.observe(seconds)

    def _remember(self, query: Query, content: bytes) -> None:
        self._cache.put(query.item, content)

    def _count_loss(self, batch: list[Query]) -> None:
        self.metrics.restarts.inc()
        self.metrics.retried.inc(len(batch))
