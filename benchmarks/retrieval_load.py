"""Load for a server of Search-R1's HTTP API: `benchmarks.retrieval` starts `python -m benchmarks.retrieval_load`.

A process of its own, so that what the clients cost is told apart from what the server costs. It spends little: raw
keep-alive connections, HTTP/1.1 written and read by hand, and replies are only checked once the time is over, each
against its queries.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.retrieval_child import answer
from benchmarks.retrieval_data import marked

NEAR = 20  # the first so many passages of a question are known; see `check`


class Connection(asyncio.Protocol):
    """One client: sends a request, waits for its reply, sends the next.

    Args:
        following: the next request and what it is called, or None when the time is over.
        taken: takes name, status, body and seconds of each reply.
    """

    def __init__(
        self,
        following: Callable[[], tuple[int, bytes] | None],
        taken: Callable[[int, int, bytes, float], None],
    ) -> None:
        self._following, self._taken = following, taken
        self._buffer = bytearray()
        self._needed = 0
        self.done: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def start(self) -> None:
        """Begin to send."""
        self.done = asyncio.get_running_loop().create_future()
        self._send()

    def _send(self) -> None:
        request = self._following()
        if request is None:
            self.done.set_result(None)
            return
        self._name, content = request
        self._since = time.perf_counter()
        self._transport.write(content)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._needed:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            self._status, self._body = int(head[9:12]), end + 4
            self._needed = self._body + int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        if len(self._buffer) < self._needed:
            return
        took = time.perf_counter() - self._since
        body = bytes(self._buffer[self._body : self._needed])
        if len(self._buffer) > self._needed:
            self.done.set_exception(RuntimeError("the server sends more than it was asked for"))
            return
        self._buffer.clear()
        self._needed = 0
        self._taken(self._name, self._status, body, took)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "done") and not self.done.done():
            self.done.set_exception(RuntimeError(f"the server closed a connection: {error}"))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


def check(bodies: Iterable[tuple[int, bytes]], size: int, answers: list[list[str]], topk: int, exact: bool) -> int:
    """Make sure that every reply answers its own queries.

    Args:
        bodies: replies with the number of their first query; number modulo questions is the question.
        size: queries a request.
        answers: ids of the first `NEAR` passages of each question, found in process.
        topk: passages that were asked for.
        exact: whether they must be the very first; otherwise most must be among these, but for one query in a
            hundred: an encoder's sums depend on the batch, so that near ties change places, and that a graph misses
            what lies in a far corner of it in one batch and finds it in another.

    Returns:
        how many queries were answered by the very first passages.

    Raises:
        RuntimeError: a reply is lost, crossed or wrong.
    """
    same, queries, strays = 0, 0, []
    for first, body in bodies:
        result = json.loads(body)["result"]
        if len(result) != size:
            raise RuntimeError(f"{len(result)} answers to {size} queries")
        for offset, hits in enumerate(result):
            known = answers[(first + offset) % len(answers)]
            ids = [hit["document"]["id"] for hit in hits]
            equal = ids == known[:topk]
            if not equal and (exact or len(ids) != len(known[:topk])):
                raise RuntimeError(f"query {first + offset}: {ids} in place of {known[:topk]}")
            if not equal and 2 * len(set(ids) & set(known)) <= len(ids):
                strays.append(f"query {first + offset}: {ids} in place of {known[:topk]}")
            same += equal
        queries += size
    if len(strays) > queries / 100:
        raise RuntimeError(strays[0])
    return same


class Load:
    """Sends questions to servers; to each server every one in a spelling that it has not seen."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._sent: dict[str, int] = {}
        self._run: dict[str, Any] = {}

    def handle(self, message: dict[str, Any]) -> dict[str, Any]:
        """`{"prepare": settings}` connects and warms up, `{"go": {}}` then measures."""
        if "prepare" in message:
            self._loop.run_until_complete(self._prepare(message["prepare"]))
            return {"ready": True}
        return self._loop.run_until_complete(self._measure())

    async def _prepare(self, job: dict[str, Any]) -> None:
        host, port = (split := urlsplit(job["address"])).hostname, split.port
        questions = json.loads(Path(job["questions"]).read_text(encoding="utf-8"))
        questions = questions[: job["first"]]
        head = f"POST /retrieve HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n".encode()
        size, warm = job["size"], job["warm"]
        position = 0 if warm else self._sent.get(job["address"], 0)
        run = self._run = {"job": job, "questions": questions, "bodies": [], "seconds": [], "until": 0.0}

        def following() -> tuple[int, bytes] | None:
            nonlocal position
            if time.perf_counter() >= run["until"]:
                self._sent[job["address"]] = max(position, self._sent.get(job["address"], 0))
                return None
            first = position
            position += size
            if warm:  # the same few queries over and over
                position %= job["clients"] * size
            queries = [
                marked(questions[number % len(questions)], number // len(questions))
                for number in range(first, first + size)
            ]
            body = json.dumps({"queries": queries, "topk": job["topk"], "return_scores": True}).encode()
            return first, b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)

        def taken(first: int, status: int, body: bytes, seconds: float) -> None:
            if status != 200:
                raise RuntimeError(f"status {status}: {body[:200]!r}")
            run["bodies"].append((first, body))
            run["seconds"].append(seconds)

        self._connections = []
        for _ in range(job["clients"]):
            _, connection = await self._loop.create_connection(lambda: Connection(following, taken), host, port)
            self._connections.append(connection)
        await self._send(job["warm_up"])

    async def _send(self, seconds: float) -> None:
        self._run["until"] = time.perf_counter() + seconds
        for connection in self._connections:
            connection.start()
        await asyncio.wait_for(
            asyncio.gather(*(connection.done for connection in self._connections)), seconds + self._run["job"]["grace"]
        )

    async def _measure(self) -> dict[str, Any]:
        run, job = self._run, self._run["job"]
        run["bodies"].clear()
        run["seconds"].clear()
        processor, start = time.process_time(), time.perf_counter()
        await self._send(job["seconds"])
        wall, spent = time.perf_counter() - start, time.process_time() - processor
        for connection in self._connections:
            connection.close()
        answers = json.loads(Path(job["answers"]).read_text(encoding="utf-8"))
        queries = len(run["seconds"]) * job["size"]
        same = check(run["bodies"], job["size"], answers, job["topk"], job["exact"])
        p50, p99 = np.percentile(run["seconds"], [50, 99])
        return {"queries": queries, "requests": len(run["seconds"]), "wall": wall, "client_cpu": spent, "p50": p50,
                "p99": p99, "same": same}  # fmt: skip


if __name__ == "__main__":
    gc.freeze()  # or a collection in the midst of a measurement would be taken for the server's time
    try:
        answer(Load().handle, {"ready": True})
    except KeyboardInterrupt:
        sys.exit(130)
