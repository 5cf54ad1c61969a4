import asyncio
from collections.abc import Sequence

import pytest

from tasks.retrieval.service.waiting import (
    TRIES,
    ExpiredError,
    FailedError,
    FullError,
    Job,
    NotNowError,
    Query,
    Queue,
)

pytestmark = pytest.mark.anyio


def queries(job: Job, *texts: str) -> list[Query]:
    return [Query((text, 3, False), job, place) for place, text in enumerate(texts)]


def texts(batch: Sequence[Query]) -> list[str]:
    return [query.item[0] for query in batch]


def request(queue: Queue, *asked: str) -> tuple[Job, list[Query]]:
    job = Job(len(asked))
    made = queries(job, *asked)
    queue.put(made)
    return job, made


async def test_requests_are_split_and_joined_in_their_order() -> None:
    queue = Queue(10)
    request(queue, "a", "b", "c")
    request(queue, "d")
    assert texts(await queue.take(2, 1)) == ["a", "b"]
    assert texts(await queue.take(2, 1)) == ["c", "d"]
    assert len(queue) == 0


async def test_idle_workers_share_what_comes() -> None:
    queue = Queue(10)
    takers = [asyncio.create_task(queue.take(8, 5)) for _ in range(2)]
    await asyncio.sleep(0)
    request(queue, *"abcdef")
    assert sorted(map(texts, await asyncio.gather(*takers))) == [["a", "b", "c"], ["d", "e", "f"]]


async def test_nothing_comes() -> None:
    assert await Queue(10).take(8, 0.01) == []


async def test_a_request_that_does_not_fit_leaves_the_queue_as_it_was() -> None:
    queue = Queue(4)
    request(queue, "a", "b")
    with pytest.raises(FullError, match="2 queries wait, and 4 may"):
        request(queue, "c", "d", "e")
    request(queue, "f", "g")
    assert texts(await queue.take(8, 1)) == ["a", "b", "f", "g"]


async def test_what_has_expired_makes_room_and_is_never_taken() -> None:
    queue = Queue(2)
    for _ in range(20):  # nor do such queries pile up
        job, _ = request(queue, "old", "old")
        job.fail(ExpiredError("late"))
        queue.ended(job)
        with pytest.raises(ExpiredError):
            await job.wait()
    assert len(queue._queries) <= 4
    request(queue, "new")
    assert texts(await queue.take(8, 1)) == ["new"]
    assert len(queue) == 0


async def test_a_lost_workers_queries_come_first_and_the_last_try_is_made_alone() -> None:
    queue = Queue(2)
    job, _ = request(queue, "a", "b")
    for _ in range(TRIES - 1):
        batch = await queue.take(8, 1)
        assert texts(batch) == ["a", "b"]
        queue.give_back(batch)
    other, _ = request(Queue(2), "c")
    queue._queries.extend(queries(other, "c"))
    first = await queue.take(8, 1)
    assert texts(first) == ["a"]
    second = await queue.take(8, 1)
    assert texts(second) == ["b"]
    second[0].take(("found", b"[]"))
    queue.give_back(first)
    with pytest.raises(NotNowError, match="3 workers were lost"):
        await job.wait()


async def test_an_answer_is_whole_and_in_the_order_of_the_queries() -> None:
    job = Job(3)
    made = queries(job, "a", "b", "c")
    for place in (2, 0, 0):
        made[place].take(("found", f"[{place}]".encode()))
    made[0].take(("found", b"[another]"))  # the first answer stays
    assert not job.over
    made[1].take(("found", b"[1]"))
    assert await job.wait() == b"[0],[1],[2]"


@pytest.mark.parametrize(("state", "error"), [("unavailable", NotNowError), ("failed", FailedError)])
async def test_one_query_without_an_answer_ends_its_request(state, error) -> None:
    job = Job(2)
    first, second = queries(job, "a", "b")
    first.take((state, b"why"))
    second.take(("found", b"[]"))
    with pytest.raises(error, match="why"):
        await job.wait()
