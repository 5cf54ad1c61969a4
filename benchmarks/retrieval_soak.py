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
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import tasks.quiet  # noqa: F401  OpenMP's threads sleep while they wait, as in a stage
from benchmarks.retrieval_soak_clients import DEADLINE, QUEUE, TOPK, Soak
from tasks import params
from tasks.processes import end_with_parent
from tasks.retrieval import open_retriever
from tasks.retrieval.index.build import build

RECOVERY = 5.0  # seconds
PASSAGES = 1000  # that are made up
QUERIES = 4000  # different ones, at most


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
