"""The clients of `python -m benchmarks.retrieval_soak`, and what they do to the server meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import psutil

EVENTS = ("kill", "stop", "stall", "nursery", "flood")
DEADLINE = 5.0  # of a request, seconds
QUEUE = 4096
TOPK = 3
PAUSE = 3.0  # seconds from one recovery to the next event


@dataclass
class Tally:
    """What came of the requests."""

    answers: int = 0
    queries: int = 0
    refused: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    crossed: int = 0
    seconds: list[float] = field(default_factory=list)


class Soak:
    """Clients of one server, and what is done to it.

    Args:
        server: its process.
        port: of the server.
        expected: ids that each query should find; the first TOPK of them in this order where `exact`.
        exact: false where near ties may change places, so that an answer is right if it is among these.
    """

    def __init__(self, server: psutil.Process, port: int, expected: dict[str, list[str]], exact: bool) -> None:
        self.server, self.port, self.expected, self.exact = server, port, expected, exact
        self.queries = list(expected)
        self.tally = Tally()
        self.ending = False

    async def request(self, head: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await _exchange(reader, writer, head, body)
        finally:
            writer.close()

    async def client(self, number: int) -> None:
        """Ask until the end."""
        rng, count = random.Random(number), 1 if number % 2 else 32
        reader = writer = None
        while not self.ending:
            asked = rng.choices(self.queries, k=count)
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                start = time.perf_counter()
                async with asyncio.timeout(2 * DEADLINE):
                    status, headers, content = await _exchange(reader, writer, "POST /retrieve", _body(asked))
            except (OSError, EOFError, TimeoutError) as error:
                self.tally.lost[type(error).__name__] += 1
                writer = None
                continue
            self.tally.seconds.append(time.perf_counter() - start)
            if not await self.judge(asked, status, headers, content):
                writer = None
        if writer is not None:
            writer.close()

    async def judge(self, asked: list[str], status: int, headers: dict[str, str], content: bytes) -> bool:
        """Count a reply; false where the connection is of no more use."""
        if status == 503 and "retry-after" in headers and "detail" in json.loads(content):
            self.tally.refused += 1
            await asyncio.sleep(float(headers["retry-after"]))
            return True
        if status != 200:
            self.tally.lost[f"status {status}"] += 1
            return False
        found = [[document["id"] for document in documents] for documents in json.loads(content)["result"]]
        right = len(found) == len(asked) and all(map(self.fits, asked, found))
        self.tally.crossed += not right
        self.tally.answers += 1
        self.tally.queries += len(asked)
        return True

    def fits(self, query: str, ids: list[str]) -> bool:
        expected = self.expected[query]
        return ids == expected[:TOPK] if self.exact else len(ids) == TOPK and set(ids) <= set(expected)

    def nursery(self) -> psutil.Process:
        """The process that forks the workers."""
        return self.server.children()[0]

    async def restarts(self) -> int:
        """Workers that have been started anew."""
        _, _, text = await self.request("GET /metrics")
        return int(float(re.findall(rb"(?m)^forager_retrieval_worker_restarts_total (\S+)$", text)[0]))

    async def provoke(self, event: str) -> float:
        """Let something happen; seconds until all is well again."""
        workers, before = self.nursery().children(), await self.restarts()
        workers = [worker for worker in workers if worker.status() != psutil.STATUS_ZOMBIE]
        start = time.perf_counter()
        lost = 0
        if event == "flood":
            await asyncio.gather(*(self.one() for _ in range(2 * QUEUE // 32)))
        elif event == "nursery":
            self.nursery().kill()
            lost = len(workers)
        else:
            number = signal.SIGKILL if event == "kill" else signal.SIGSTOP
            chosen = workers if event == "stall" else workers[:1]
            for worker in chosen:
                worker.send_signal(number)
            lost = len(chosen)
        while not (await self.restarts() >= before + lost and await self.well()):
            if time.perf_counter() - start > 60:
                break
            await asyncio.sleep(0.05)
        return time.perf_counter() - start

    async def one(self) -> None:
        """A request of the flood: judged like any other."""
        asked = random.Random(time.perf_counter()).choices(self.queries, k=64)
        try:
            async with asyncio.timeout(2 * DEADLINE):
                reply = await self.request("POST /retrieve", _body(asked))
        except (OSError, EOFError, TimeoutError) as error:
            self.tally.lost[type(error).__name__] += 1
            return
        await self.judge(asked, *reply)

    async def well(self) -> bool:
        """Whether all workers are there and a request is answered."""
        return (
            (await self.request("GET /ready"))[0]
            == (await self.request("POST /retrieve", _body(self.queries[:1])))[0]
            == 200
        )

    async def run(self, seconds: float, clients: int) -> list[tuple[str, float, float, int]]:
        """Events: what, at which second, seconds of recovery, 503s meanwhile."""
        start, events = time.perf_counter(), []
        asking = [asyncio.create_task(self.client(number)) for number in range(clients)]
        await asyncio.sleep(1)
        while (at := time.perf_counter() - start) < seconds - PAUSE or len(events) < len(EVENTS):
            event, before = EVENTS[len(events) % len(EVENTS)], self.tally.refused
            recovery = await self.provoke(event)
            events.append((event, at, recovery, self.tally.refused - before))
            print(f"{event:8} at {at:5.0f} s: well again after {recovery:4.1f} s", file=sys.stderr, flush=True)
            await asyncio.sleep(min(PAUSE, seconds / 20))
        self.ending = True
        await asyncio.gather(*asking)
        return events


def _body(queries: list[str]) -> bytes:
    return json.dumps({"queries": queries, "topk": TOPK}).encode()


async def _exchange(
    reader: asyncio.StreamReader | None, writer: asyncio.StreamWriter, head: str, body: bytes
) -> tuple[int, dict[str, str], bytes]:
    assert reader is not None
    lines = f"{head} HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(lines.encode() + body)
    first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in fields if line)}
    return int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))
