"""Whether the retrieval server loses or crosses an answer while its workers are killed, stopped and flooded.

    python -m benchmarks.retrieval_soak [--seconds 300] [--clients 64] [--corpus FILE.jsonl.gz] [--retriever bm25]

Clients ask over plain sockets, half of them one query a request, half of them 32; each reply is checked against what
the same index says in this process. They try nothing again: a 503 is counted, and its Retry-After is honoured. What
happens meanwhile, in turn, for as long as the time lasts:

- kill: a worker is ended by kill -9
- stop: a worker is stopped (SIGSTOP) in the midst of its work
- stall: all workers are stopped at once, as by an encoder that hangs
- nursery: the process that forks the workers is ended by kill -9, and they end with it
- flood: more queries come at once than the queue holds

Recovery is the time from such an event until every worker has been started anew and a request is answered; after a
flood, until a request is answered. Ends with 1 when an answer was lost or crossed, or a recovery took over 5 s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import gzip
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import tasks.quiet  # noqa: F401  OpenMP's threads sleep while they wait, as in a stage
from tasks import params
from tasks.processes import end_with_parent
from tasks.retrieval import open_retriever
from tasks.retrieval.build import build

EVENTS = ("kill", "stop", "stall", "nursery", "flood")
RECOVERY = 5.0  # seconds
DEADLINE = 5.0  # of a request, seconds
QUEUE = 4096
PASSAGES = 1000  # that are made up
QUERIES = 4000  # different ones, at most
TOPK = 3
PAUSE = 3.0  # seconds from one recovery to the next event


def passages(corpus: Path | None) -> list[tuple[str, str, str]]:
    """Id, title and text of each passage: of a file, or made up."""
    if corpus is None:
        rng = random.Random(0)
        words = ["".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3)) for _ in range(PASSAGES)]
        return [(f"p{n}", f"{words[n]} {n}", " ".join(rng.choices(words, k=30))) for n in range(PASSAGES)]
    content = corpus.read_bytes()
    lines = (gzip.decompress(content) if corpus.suffix == ".gz" else content).splitlines()
    rows = [json.loads(line) for line in lines]
    return [(str(row["id"]), row["title"], row["text"]) for row in rows]


def make_index(found: list[tuple[str, str, str]], folder: Path, retriever: str, encoder: str) -> Path:
    """Index passages for a retriever."""
    columns = zip(("id", "title", "text"), zip(*found, strict=True), strict=True)
    pq.write_table(pa.table({name: pa.array(column, pa.string()) for name, column in columns}), folder / "corpus")
    needs = ["bm25", "dense"] if retriever == "hybrid" else [retriever]
    content = params.overlay(params.resolve("tiny"), {"index": {"build": needs, "dense": {"encoder": encoder}}})
    index = folder / "index"
    index.mkdir()
    build(folder / "corpus", index, params.typed(content, where="benchmark").index, lambda line: None)
    return index


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
            if not await self.judge(asked, status, headers, content, time.perf_counter() - start):
                writer = None
        if writer is not None:
            writer.close()

    async def judge(
        self, asked: list[str], status: int, headers: dict[str, str], content: bytes, seconds: float
    ) -> bool:
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
        self.tally.seconds.append(seconds)
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
        await self.judge(asked, *reply, 0.0)

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


@contextlib.contextmanager
def serving(index: Path, retriever: str, workers: int) -> Iterator[tuple[psutil.Process, int]]:
    """A server, and its port."""
    said = ["--index", str(index), "--retriever", retriever, "--workers", str(workers), "--seconds", str(DEADLINE)]
    server = subprocess.Popen(
        [sys.executable, "-m", "tasks.retrieval_server", *said, "--queue", str(QUEUE), "--cache", "1"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
    )
    try:
        assert server.stdout is not None
        yield psutil.Process(server.pid), int(server.stdout.readline().rpartition(":")[2])
    finally:
        server.terminate()
        server.wait(30)


def report(soak: Soak, events: list[Any]) -> bool:
    """Print the tables; whether all went well."""
    print("event       at s  recovery s  503s")
    for event, at, recovery, refused in events:
        print(f"{event:8} {at:7.0f} {recovery:11.1f} {refused:5}")
    tally, seconds = soak.tally, sorted(soak.tally.seconds)
    p50, p99 = (1000 * seconds[int(len(seconds) * share)] for share in (0.5, 0.99))
    lost = sum(tally.lost.values())
    print(f"{tally.answers:,} answers to {tally.queries:,} queries, p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    print(f"{tally.refused:,} 503s, {lost} lost, {tally.crossed} crossed{f': {dict(tally.lost)}' if lost else ''}")
    return not lost and not tally.crossed and all(recovery <= RECOVERY for _, _, recovery, _ in events)


def main() -> None:
    """Build an index, serve it, soak it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval_soak", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long (default 300)")
    parser.add_argument("--clients", type=int, default=64, help="how many (default 64)")
    parser.add_argument("--workers", type=int, default=2, help="of the server (default 2)")
    parser.add_argument("--corpus", type=Path, help="JSON lines of id, title, text; .gz works (default: made up)")
    parser.add_argument("--retriever", choices=["bm25", "dense", "hybrid"], default="bm25")
    parser.add_argument("--encoder", default="ngrams", help="of dense and hybrid, as index.dense.encoder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = passages(options.corpus)
        index = make_index(found, Path(name), options.retriever, options.encoder)
        rng = random.Random(1)
        queries = [" ".join(rng.sample(text.split(), min(6, len(text.split())))) for _, _, text in found]
        queries = [query for query in dict.fromkeys(queries) if query.strip()]
        queries = rng.sample(queries, min(QUERIES, len(queries)))
        section = params.typed(params.resolve("tiny"), where="benchmark").retrieval
        retriever = open_retriever(index, section.model_copy(update={"retriever": options.retriever, "server": None}))
        exact = options.retriever == "bm25"
        hits = retriever.search(queries, TOPK if exact else 3 * TOPK)
        expected = {query: [hit.passage.id for hit in one] for query, one in zip(queries, hits, strict=True)}
        with serving(index, options.retriever, options.workers) as (server, port):
            soak = Soak(server, port, expected, exact)
            events = asyncio.run(soak.run(options.seconds, options.clients))
        if not report(soak, events):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
