"""The pool over workers in this process: what is hard to bring about in a real one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.agent.protocols import Call
from tasks.agent.toolbox import Limits
from tasks.agent.toolbox import pool as module
from tasks.agent.toolbox.pool import Pool
from tasks.agent.toolbox.spec import Spec, UnaskedError, WorkerLostError
from tasks.agent.toolbox.workers import ProcessWorker, ThreadWorker
from tasks.errors import InputError

LIMITS = Limits(seconds=0.5, parallel=2)


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Spec:
    here = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", here)
    return Spec(("misbehave",), LIMITS, modules=("misbehaving",))


async def within(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_trajectory_that_nobody_ends_is_freed(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE", 0.2)  # seconds
    monkeypatch.setattr(module, "BEAT", 0.05)
    freed: list[str] = []

    async def run() -> None:
        pool = Pool(lambda: ThreadWorker(spec), 1, LIMITS)
        pool.on_release = freed.append
        await pool.start()
        await pool.call("one", [Call("misbehave", "fine")])
        assert pool.trajectories == 1
        await within(lambda: pool.trajectories == 0)
        (result,) = await pool.call("one", [Call("misbehave", "fine")])
        assert result.text == "fine 1" and pool.expired == 1
        await pool.close()

    asyncio.run(run())
    assert freed == ["one"]


def test_what_a_trajectory_was_shown_outlives_a_lost_worker_and_is_freed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BEAT", 0.01)
    freed: list[str] = []
    made: list[Scripted] = []

    def make() -> Scripted:
        made.append(Scripted(True, {"trajectory": "one", "results": []}))
        return made[-1]

    async def run() -> None:
        pool = Pool(make, 1, LIMITS)
        pool.on_release = freed.append
        await pool.start()
        await pool.call("one", [])
        await pool.call("idle", [])
        for restarts in (1, 2):
            made[-1].killed = True
            await within(lambda restarts=restarts: pool.restarts == restarts and pool.opened == 1)
        # Both go on; what the first worker remembered of them was lost once.
        assert (pool.trajectories, pool.lost, freed) == (2, 2, [])
        await pool.release("one")
        assert freed == ["one"] and not any(message.get("release") for message in made[-1].asked)
        monkeypatch.setattr(module, "IDLE", 0.0)
        await within(lambda: pool.trajectories == 0)
        assert freed == ["one", "idle"] and pool.expired == 1
        await pool.close()

    asyncio.run(run())


def test_a_worker_in_which_too_many_calls_hang_is_started_anew(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HUNG", 3)
    monkeypatch.setattr(module, "BEAT", 0.05)

    async def run() -> None:
        pool = Pool(lambda: ProcessWorker(spec), 1, LIMITS)
        await pool.start()
        # Calls under way are none that hang.
        naps = [pool.call(f"n{n}", [Call("misbehave", "nap 0.3")] * 2) for n in range(4)]
        assert {one.failure for turn in await asyncio.gather(*naps) for one in turn} == {None}
        await asyncio.sleep(0.3)
        assert pool.restarts == 0
        await asyncio.gather(*(pool.call(f"h{n}", [Call("misbehave", "hang")]) for n in range(4)))
        assert pool.failures == {"timeout": 4}
        await within(lambda: pool.restarts == 1 and pool.opened == 1)
        assert (await pool.call("one", [Call("misbehave", "fine")]))[0].text == "fine 1"
        await pool.close()

    asyncio.run(run())


class Scripted:
    """A worker that opens, answers and dies as it is told."""

    def __init__(self, opens: Any, answer: Any = None) -> None:
        self.opens, self.answer, self.killed = opens, answer, False
        self.asked: list[dict[str, Any]] = []

    async def open(self) -> list[dict[str, Any]]:
        if isinstance(self.opens, Exception):
            raise self.opens
        return [{"name": "misbehave", "schema": {}}]

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(message)
        if self.killed or isinstance(self.opens, Exception):
            raise WorkerLostError("dead")
        if not message:
            return {}
        return dict(self.answer)

    async def kill(self) -> None:
        self.killed = True


RESULT = {"obs": "secret", "passages": [], "done": True, "failure": None, "seconds": 0.0}


def test_a_worker_that_cannot_be_started_anew_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT", 0.01)
    monkeypatch.setattr(module, "GRACE", 600.0)  # seconds
    answer = {"trajectory": "one", "results": [RESULT]}
    made = [Scripted(True), Scripted(WorkerLostError("no")), Scripted(InputError("no")), Scripted(True, answer)]
    waiting = list(made)

    async def run() -> None:
        pool = Pool(lambda: waiting.pop(0), 1, LIMITS)
        await pool.start()
        assert pool.opened == 1
        made[0].killed = True
        await within(lambda: pool.opened == 0)
        # A call waits for the next worker.
        (result,) = await pool.call("one", [Call("misbehave", "fine")])
        assert (result.text, pool.opened, pool.restarts) == ("secret", 1, 3)
        await pool.close()

    asyncio.run(run())
    assert all(worker.killed for worker in made)


def test_a_call_waits_for_a_worker_no_longer_than_a_call_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT", 0.01)
    monkeypatch.setattr(module, "GRACE", 0.1)

    async def run() -> None:
        first = Scripted(True)
        made = [first]
        pool = Pool(lambda: made.pop() if made else Scripted(WorkerLostError("no")), 1, LIMITS)
        await pool.start()
        first.killed = True
        await within(lambda: pool.opened == 0)
        (result,) = await pool.call("one", [Call("misbehave", "fine")])
        assert result.failure == "worker" and result.seconds >= LIMITS.seconds
        await pool.close()

    asyncio.run(run())


@pytest.mark.parametrize(("error", "failure"), [(UnaskedError, None), (WorkerLostError, "worker")])
def test_a_call_goes_to_the_next_worker_only_where_the_lost_one_has_not_got_it(
    monkeypatch: pytest.MonkeyPatch, error: type[WorkerLostError], failure: str | None
) -> None:
    class Dying(Scripted):
        async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
            if self.killed or message:
                self.killed = True
                raise error("dead")
            return {}

    monkeypatch.setattr(module, "BEAT", 0.01)
    monkeypatch.setattr(module, "GRACE", 600.0)  # seconds
    made: list[Scripted] = [Scripted(True, {"trajectory": "one", "results": [RESULT]}), Dying(True)]
    successor = made[0]

    async def run() -> None:
        pool = Pool(made.pop, 1, LIMITS)
        await pool.start()
        (result,) = await pool.call("one", [Call("misbehave", "fine")])
        assert result.failure == failure
        await within(lambda: pool.restarts == 1 and pool.opened == 1)
        # What the successor remembers of it is freed there.
        await pool.release("one")
        assert any(message.get("release") for message in successor.asked) == (failure is None)
        await pool.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        {"trajectory": "two", "results": [RESULT]},
        {"results": [RESULT]},
        {"trajectory": "one", "results": [RESULT, RESULT]},
        {"trajectory": "one", "results": []},
        {"trajectory": "one", "results": [{**RESULT, "obs": 1}]},
        {"trajectory": "one"},
        {},
    ],
)
def test_an_answer_that_is_none_of_this_trajectorys_is_a_failure(answer: dict[str, Any]) -> None:
    async def run() -> None:
        pool = Pool(lambda: Scripted(True, answer), 1, LIMITS)
        await pool.start()
        (result,) = await pool.call("one", [Call("misbehave", "fine")])
        assert (result.failure, result.text, result.done) == ("worker", "", False)
        assert pool.failures == {"worker": 1}
        await pool.close()

    asyncio.run(run())


@pytest.mark.parametrize("error", [InputError("no key"), WorkerLostError("no key"), TimeoutError("no key")])
def test_workers_that_do_not_open_are_an_input_error(error: Exception) -> None:
    async def run() -> None:
        pool = Pool(lambda: Scripted(error), 2, LIMITS)
        with pytest.raises(InputError, match="no key"):
            await pool.start()
        await pool.close()

    asyncio.run(run())
