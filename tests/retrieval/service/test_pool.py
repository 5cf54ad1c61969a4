"""The pool over workers of its own making: what is hard to bring about in real ones."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

import httpx
import pytest

from tasks.errors import InputError
from tasks.retrieval.service import pool as module
from tasks.retrieval.service.answering import Answering
from tasks.retrieval.service.requests import Asked
from tasks.retrieval.service.searching import Opened
from tasks.retrieval.service.server import create_app
from tasks.retrieval.service.waiting import FailedError, FullError, GoneError, Job, NotNowError
from tasks.retrieval.service.wire import Answer, Item
from tasks.retrieval.service.workers import WorkerLostError

pytestmark = pytest.mark.anyio


class Fake:
    """A worker that answers each query with its own text, but for some that say what becomes of it."""

    def __init__(self, number: int, log: list[list[str]]) -> None:
        self.number, self.log = number, log
        self.killed = False

    async def open(self) -> Opened:
        return Opened("hash", 4, 0.0)

    async def search(self, items: Sequence[Item]) -> list[Answer]:
        texts = [query for query, _, _ in items]
        if texts:
            self.log.append(texts)
        if "kill" in texts or ("kill the first" in texts and self.number == 0):
            raise WorkerLostError("killed")
        if "hang the first" in texts and self.number == 0:
            await asyncio.sleep(3600)
        if "slow" in texts:
            await asyncio.sleep(0.3)
        return [("failed", b"why") if text == "fail" else ("found", f'["{text}"]'.encode()) for text in texts]

    async def kill(self) -> None:
        self.killed = True


class Made:
    """Workers by the order in which they were made, and the batches that they got."""

    def __init__(self, kind: Callable[[int, list[list[str]]], Fake] = Fake) -> None:
        self.kind = kind
        self.workers: list[Fake] = []
        self.log: list[list[str]] = []

    def __call__(self) -> Fake:
        self.workers.append(self.kind(len(self.workers), self.log))
        return self.workers[-1]


def never(job: Job) -> asyncio.Task[None]:
    return asyncio.create_task(asyncio.sleep(3600))


@contextlib.asynccontextmanager
async def running(make: Made, workers: int = 1, queue: int = 100, cache: int = 0) -> AsyncIterator[Answering]:
    answering = Answering(make, workers=workers, queue=queue, seconds=30, cache=cache)
    await answering.pool.start()
    task = asyncio.create_task(answering.pool.run())
    try:
        yield answering
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await answering.pool.close()


async def ask(answering: Answering, *texts: str, seconds: float = 30, watch=never, topk: int = 3) -> str:
    until = asyncio.get_running_loop().time() + seconds
    return (await answering.answer(Asked(list(texts), topk, False), until, watch)).decode()


def count(answering: Answering, name: str) -> float:
    found = answering.metrics._registry.get_sample_value(f"forager_retrieval_{name}")
    assert found is not None
    return found


async def test_a_lost_workers_batch_goes_to_another_and_no_client_sees_it() -> None:
    make = Made()
    async with running(make, workers=2) as answering:
        start = time.monotonic()
        answers = await asyncio.gather(ask(answering, "kill the first"), ask(answering, "b"))
        assert answers == ['["kill the first"]', '["b"]'] and time.monotonic() - start < 10
        assert count(answering, "worker_restarts_total") == 1 <= count(answering, "retried_queries_total") <= 2
        assert [worker.killed for worker in make.workers] == [True, False, False]


async def test_a_worker_that_hangs_is_killed_and_its_batch_goes_to_another(monkeypatch) -> None:
    monkeypatch.setattr(module, "STALL", 0.1)
    make = Made()
    async with running(make) as answering:
        assert await ask(answering, "hang the first", "b") == '["hang the first"],["b"]'
        assert [worker.killed for worker in make.workers] == [True, False]


async def test_an_idle_worker_that_hangs_is_found_out(monkeypatch) -> None:
    monkeypatch.setattr(module, "STALL", 0.05)
    monkeypatch.setattr(module, "BEAT", 0.05)

    class Sleeper(Fake):
        async def search(self, items: Sequence[Item]) -> list[Answer]:
            if self.number == 0:
                await asyncio.sleep(3600)
            return await super().search(items)

    make = Made(Sleeper)
    async with running(make) as answering, asyncio.timeout(10):
        while len(make.workers) < 2 or answering.pool.ready < 1:
            await asyncio.sleep(0.01)
        assert count(answering, "worker_restarts_total") == 1


async def test_a_query_that_kills_its_workers_fails_alone() -> None:
    make = Made()
    async with running(make) as answering:
        good, bad = await asyncio.gather(ask(answering, "a"), ask(answering, "kill"), return_exceptions=True)
        assert good == '["a"]'
        assert isinstance(bad, NotNowError) and "3 workers" in str(bad)
        assert make.log[-1] == ["kill"] or ["kill"] in make.log
        assert await ask(answering, "c") == '["c"]'


async def test_a_failed_search_fails_its_request_alone_and_is_not_remembered() -> None:
    make = Made()
    async with running(make, cache=1 << 20) as answering:
        for _ in range(2):
            good, bad = await asyncio.gather(ask(answering, "a"), ask(answering, "b", "fail"), return_exceptions=True)
            assert good == '["a"]' and isinstance(bad, FailedError)
        assert sum(batch.count("fail") for batch in make.log) == 2
        assert sum(batch.count("a") for batch in make.log) == 1


async def test_the_cache_holds_query_topk_and_form_and_counts() -> None:
    make = Made()
    async with running(make, cache=1 << 20) as answering:
        assert await ask(answering, "a", "b") == await ask(answering, "a", "b") == '["a"],["b"]'
        assert await ask(answering, "b", "c") == '["b"],["c"]'
        await ask(answering, "a", topk=4)
        assert [query for batch in make.log for query in batch] == ["a", "b", "c", "a"]
        assert (count(answering, "cache_hits_total"), count(answering, "cache_misses_total")) == (3, 4)
        assert count(answering, "queries_total") == 7


async def test_the_cache_forgets_the_least_recently_used() -> None:
    make = Made()
    async with running(make, cache=2 * 1100) as answering:
        for text in ("a", "b", "a", "c", "a", "b"):
            await ask(answering, text)
        assert [query for batch in make.log for query in batch] == ["a", "b", "c", "b"]


async def test_what_has_expired_is_not_searched_for() -> None:
    make = Made()
    async with running(make) as answering:
        slow = asyncio.create_task(ask(answering, "slow"))
        await asyncio.sleep(0.05)
        with pytest.raises(Exception, match="deadline"):
            await ask(answering, "late", seconds=0.05)
        await slow
        assert await ask(answering, "b") == '["b"]'
        assert make.log == [["slow"], ["b"]]
        assert count(answering, "deadline_misses_total") == 1


async def test_what_nobody_waits_for_is_not_searched_for() -> None:
    make = Made()

    def leaves(job: Job) -> asyncio.Task[None]:
        job.fail(GoneError("gone"))
        return never(job)

    async with running(make) as answering:
        slow = asyncio.create_task(ask(answering, "slow"))
        await asyncio.sleep(0.05)
        with pytest.raises(GoneError):
            await ask(answering, "left", watch=leaves)
        await slow
        await ask(answering, "b")
        assert make.log == [["slow"], ["b"]]


async def test_beyond_the_queue_a_request_is_refused_at_once() -> None:
    make = Made()
    async with running(make, queue=2) as answering:
        slow = asyncio.create_task(ask(answering, "slow"))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(ask(answering, "a", "b"))
        await asyncio.sleep(0)
        with pytest.raises(FullError):
            await ask(answering, "c")
        assert await waiting == '["a"],["b"]' and await slow
        assert count(answering, "rejected_total") == 1
        assert count(answering, "queries_total") == count(answering, "cache_misses_total") == 3  # it was not taken on


async def test_what_cannot_be_answered_in_time_is_refused_at_once() -> None:
    make = Made()
    async with running(make) as answering:
        slow = asyncio.create_task(ask(answering, "slow"))
        await asyncio.sleep(0.05)
        answering.pool._slots[0].pace = 1.0  # seconds a query
        waiting = asyncio.create_task(ask(answering, "a", "b", "c"))
        await asyncio.sleep(0)
        with pytest.raises(FullError, match="3 queries wait, too many for the deadline"):
            await ask(answering, "d", seconds=2)
        assert await ask(answering, "e", seconds=4) == '["e"]' and await slow and await waiting
        # Alone, any number is tried: what a query takes may have changed.
        answering.pool._slots[0].pace = 1e6
        assert await ask(answering, "f", "g", seconds=2)


async def test_queries_of_several_requests_make_up_one_batch() -> None:
    make = Made()
    async with running(make) as answering:
        await asyncio.gather(ask(answering, "slow"), *(ask(answering, f"q{n}") for n in range(9)))
        assert make.log == [["slow"], [f"q{n}" for n in range(9)]] or len(make.log) == 1


async def test_a_worker_of_another_corpus_is_not_taken_on() -> None:
    class Other(Fake):
        async def open(self) -> Opened:
            return Opened("other" if self.number == 1 else "hash", 4, 0.0)

    make = Made(Other)
    async with running(make) as answering:
        assert await ask(answering, "kill the first") == '["kill the first"]'
        assert [worker.killed for worker in make.workers] == [True, True, False]


@pytest.mark.parametrize("error", [WorkerLostError("it died"), InputError("no index here"), TimeoutError()])
async def test_a_worker_that_cannot_be_opened_keeps_the_server_from_starting(error: Exception) -> None:
    class Broken(Fake):
        async def open(self) -> Opened:
            raise error

    with pytest.raises(InputError, match=r"it died|no index here|not open after"):
        async with running(Made(Broken), workers=2):
            pass


async def test_it_is_alive_and_not_ready_until_every_worker_is() -> None:
    answering = Answering(Made(), workers=2, queue=1, seconds=1, cache=0)
    app = create_app(answering, retriever="bm25", topk=3)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert (await client.get("/health")).status_code == 200
        reply = await client.get("/ready")
        assert (reply.status_code, reply.json()) == (503, {"detail": "0 of 2 workers are ready"})
        await answering.pool.start()
        assert (await client.get("/ready")).json()["corpus_sha256"] == "hash"
    await answering.pool.close()


async def test_a_request_that_came_before_the_index_was_open_is_held_against_its_corpus() -> None:
    answering = Answering(Made(), workers=1, queue=1, seconds=30, cache=0)
    app = create_app(answering, retriever="bm25", topk=3)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:

        def ask(corpus: str) -> asyncio.Task[httpx.Response]:
            headers = {"x-corpus-sha256": corpus}
            return asyncio.create_task(client.post("/retrieve", json={"queries": ["a"]}, headers=headers))

        asking = ask("other")
        async with asyncio.timeout(10):
            while count(answering, "queue_queries") == 0:
                await asyncio.sleep(0.01)
        await answering.pool.start()
        working = asyncio.create_task(answering.pool.run())
        assert (await asking).status_code == 409
        assert (await ask("hash")).json() == {"result": [["a"]]}
        working.cancel()
    await answering.pool.close()
