"""The tool server's workers: requests of one trajectory go to one of them, and lost ones are started anew."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tasks.agent.toolbox import wire
from tasks.agent.toolbox.base import Result
from tasks.agent.toolbox.running import Limits
from tasks.agent.toolbox.spec import UnaskedError, WorkerLostError
from tasks.agent.toolbox.workers import OPENING, Worker
from tasks.errors import InputError

if TYPE_CHECKING:
    from tasks.agent.protocols.base import Call

log = logging.getLogger("forager.tools")

GRACE = 2.0  # seconds that a worker has beyond a call's own, to say that it took too long
BEAT = 0.5  # seconds between two looks at a worker
MOST_HUNG = 256  # calls that were given up and still run; their threads end with their worker alone
IDLE = 3600.0  # seconds after which a trajectory that nobody has ended is freed


class _Slot:
    """A worker, its successors, and the trajectories that are theirs."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self.make, self.worker = make, make()
        self.opened = asyncio.Event()
        self.used: dict[str, float] = {}  # time of the last request by trajectory
        self.held: set[str] = set()  # those of them that this very worker may remember something of


class Pool:
    """Workers of one kind.

    Args:
        make: makes a worker, not started yet.
        count: how many.
        limits: of the calls, which the workers keep; the pool sees to it that they do.

    Attributes:
        on_release: called with the id of every trajectory that is freed.
        tools: what `wire.describe` says of the tools, once started.
        calls: how many, by tool; `unknown` where there is no such tool.
        seconds: spent on them, by tool.
        failures: how many, by kind.
        restarts: of workers.
        lost: trajectories whose worker was lost, and with it what tools remembered of them.
        expired: trajectories that nobody ended.
    """

    def __init__(self, make: Callable[[], Worker], count: int, limits: Limits) -> None:
        self._slots = [_Slot(make) for _ in range(count)]
        self._patience = limits.seconds + GRACE
        self._tending: list[asyncio.Task[None]] = []
        self.on_release: Callable[[str], object] = lambda trajectory_id: None
        self.tools: list[dict[str, Any]] = []
        self.calls: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.failures: Counter[str] = Counter()
        self.restarts = self.lost = self.expired = 0

    @property
    def workers(self) -> int:
        """How many workers there are to be."""
        return len(self._slots)

    @property
    def opened(self) -> int:
        """How many workers have opened their tools."""
        return sum(slot.opened.is_set() for slot in self._slots)

    @property
    def trajectories(self) -> int:
        """How many trajectories are under way."""
        return sum(len(slot.used) for slot in self._slots)

    async def start(self) -> None:
        """Start all workers.

        Raises:
            InputError: a tool is unknown, cannot be opened, or is not open in time.
        """
        opening = [asyncio.create_task(self._open(slot)) for slot in self._slots]
        try:
            self.tools = (await asyncio.gather(*opening))[0]
        except (TimeoutError, WorkerLostError) as error:
            why = str(error) or f"not open after {OPENING:.0f} s"
            raise InputError(f"a worker of the tool server did not start: {why}", where="tools.names") from error
        finally:
            for task in opening:
                task.cancel()
        self._tending = [asyncio.create_task(self._tend(slot)) for slot in self._slots]

    async def close(self) -> None:
        """End all workers."""
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        await asyncio.gather(*(slot.worker.kill() for slot in self._slots))

    async def call(self, trajectory_id: str, calls: Sequence[Call]) -> list[Result]:
        """Run one turn's calls in the trajectory's worker; a result for each, in their order, failed or not.

        Raises:
            InputError: a tool has found that the parameters are wrong.
        """
        slot = self._slot(trajectory_id)
        slot.used[trajectory_id] = time.monotonic()
        start = time.perf_counter()
        results = await self._ask(slot, trajectory_id, calls)
        if results is None:
            took = time.perf_counter() - start
            results = [Result(failure="worker", seconds=took) for _ in calls]
        known = {tool["name"] for tool in self.tools}
        for call, result in zip(calls, results, strict=True):
            name = call.tool if call.tool in known else "unknown"
            self.calls[name] += 1
            self.seconds[name] += result.seconds
            if result.failure is not None:
                self.failures[result.failure] += 1
        return results

    async def release(self, trajectory_id: str) -> None:
        """The trajectory has ended: free what the tools remember of it."""
        slot = self._slot(trajectory_id)
        self.on_release(trajectory_id)
        slot.used.pop(trajectory_id, None)
        if trajectory_id not in slot.held:
            return
        slot.held.discard(trajectory_id)
        try:
            async with asyncio.timeout(self._patience):
                await slot.worker.ask({"trajectory": trajectory_id, "release": True})
        except (TimeoutError, WorkerLostError) as error:
            log.warning("trajectory %r could not be freed: %s", trajectory_id, error or "no answer")

    def _slot(self, trajectory_id: str) -> _Slot:
        return self._slots[zlib.crc32(trajectory_id.encode("utf-8", "surrogatepass")) % len(self._slots)]

    async def _ask(self, slot: _Slot, trajectory_id: str, calls: Sequence[Call]) -> list[Result] | None:
        """The worker's results; None when it brings none, or another trajectory's.

        Raises:
            InputError: see `call`.
        """
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._asked(slot, trajectory_id, calls)
            if answer.get("trajectory") == trajectory_id and isinstance(answer.get("error"), str):
                raise InputError(answer["error"])
            results = wire.load_results(answer.get("results"))
        except (TimeoutError, WorkerLostError, ValueError, RecursionError) as error:
            log.warning("trajectory %r: %s", trajectory_id, error or "no answer from its worker")
            return None
        if answer.get("trajectory") != trajectory_id or len(results) != len(calls):
            log.warning("trajectory %r: its worker answered for %r", trajectory_id, answer.get("trajectory"))
            return None
        return results

    async def _asked(self, slot: _Slot, trajectory_id: str, calls: Sequence[Call]) -> dict[str, Any]:
        """The worker's answer, or the next one's where it is lost before it was asked."""
        while True:
            await slot.opened.wait()
            slot.held.add(trajectory_id)
            try:
                return await slot.worker.ask({"trajectory": trajectory_id, "calls": wire.dump_calls(calls)})
            except UnaskedError:
                slot.opened.clear()  # the next look finds it lost as well

    async def _open(self, slot: _Slot) -> list[dict[str, Any]]:
        async with asyncio.timeout(OPENING):
            tools = await slot.worker.open()
        slot.opened.set()
        return tools

    async def _tend(self, slot: _Slot) -> None:
        """Watch a worker for ever; start it anew whenever it is lost."""
        while True:
            log.warning("a worker is started anew: %s", await self._loss(slot))
            slot.opened.clear()
            self.restarts += 1
            # The trajectories go on, and who asks for them remembers more of them: they end, or are idle, like others.
            self.lost += len(slot.held)
            slot.held.clear()
            await slot.worker.kill()
            slot.worker = slot.make()
            try:
                await self._open(slot)
            except (TimeoutError, WorkerLostError, InputError) as error:
                log.warning("a worker did not start: %s", error or "not open in time")
                await asyncio.sleep(1.0)  # the next look finds it lost

    async def _loss(self, slot: _Slot) -> str:
        """Look at a worker until it is lost; returns why.

        Even a call may hold the GIL for as long as a call may take; a worker that is silent for longer is hung.
        """
        while True:
            try:
                async with asyncio.timeout(self._patience):
                    hung = (await slot.worker.ask({})).get("hung", 0)
                if hung > MOST_HUNG:
                    return f"{hung} calls hang in it"
            except WorkerLostError as error:
                return str(error)
            except TimeoutError:
                return f"silent for {self._patience:.0f} s"
            await asyncio.sleep(BEAT)
            await self._free_idle(slot)

    async def _free_idle(self, slot: _Slot) -> None:
        now = time.monotonic()
        for trajectory_id in [key for key, last in slot.used.items() if now - last > IDLE]:
            self.expired += 1
            await self.release(trajectory_id)
