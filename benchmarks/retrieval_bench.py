"""What `benchmarks.retrieval` measures: contenders, services and a load are opened, and take turns."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import retrieval_report as report
from benchmarks.retrieval_child import Child
from benchmarks.retrieval_http import Server, measure

TOPK = 3
CORES = len(os.sched_getaffinity(0))
BATCHES = (32, 64, 128)  # in which the encoder is tried
DENSE_QUESTIONS = 2_000
SECONDS = {"bm25": 2.0, "dense": 5.0, "hybrid": 5.0}  # of a measurement; of one that does not count, a quarter
K1, B = 1.5, 0.75
OPENING, ANSWERS, BUILDING = 300.0, 300.0, 7200.0
# Back end, threads, and what part of a measurement's time calls of so many questions get.
BM25S: tuple[tuple[str, int, dict[int, float]], ...] = (
    ("numpy", 0, {256: 1.0}),
    ("numpy", CORES, {256: 1.0}),
    ("numba", 1, {32: 1.0, 1000: 1.0}),
    ("numba", CORES, {32: 1.0, 1000: 1.0}),
)


def say(line: str) -> None:
    """Show progress, apart from the result."""
    print(line, file=sys.stderr, flush=True)


class Bench:
    """Contenders, servers and a load, and what was measured of them.

    Args:
        options: the command's.
        stack: ends what is started.
    """

    def __init__(self, options: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self._options, self._stack, self._folder = options, stack, options.workdir
        self._only = options.only
        self._measures: dict[str, Callable[[float], dict[str, Any]]] = {}
        self._contenders: dict[str, tuple[Child, dict[str, Any]]] = {}
        self._servers: dict[str, tuple[Server, dict[str, float]]] = {}
        self.result: dict[str, Any] = {"labels": {}, "figures": {}, "memory": {}, "build": [], "notes": []}

    def _settings(self, retriever: str, **more: Any) -> dict[str, Any]:
        dense = retriever != "bm25"
        return {
            "folder": str(self._folder),
            "retriever": retriever,
            "build": ["bm25", "dense"] if dense else ["bm25"],
            "index": str(self._folder / ("index" if dense else "index-bm25")),
            "resume": str(self._folder / "shards") if dense else None,
            "first": DENSE_QUESTIONS if dense else None,
            "k1": K1,
            "b": B,
            "dtype": self._options.dtype,
            "faiss": self._options.faiss,
            **more,
        }

    def _child(self, settings: dict[str, Any]) -> Child:
        child = Child("benchmarks.retrieval_local", [json.dumps(settings)])
        self._stack.callback(child.close)
        return child

    def build(self) -> None:
        """Build the indexes: the one with BM25 alone as often as there are rounds, where that is a part."""
        shutil.rmtree(self._folder / "bm25s", ignore_errors=True)  # the first of its contenders builds it anew
        if {"bm25", "http", "build"} & self._only:
            for _ in range(self._options.rounds if "build" in self._only else 1):
                self._build("bm25")
        if {"dense", "hybrid"} & self._only:
            say(f"dense index: {self._build('dense')['seconds']:.0f} s")

    def _build(self, retriever: str) -> dict[str, Any]:
        child = self._child(self._settings(retriever, kind="build"))
        child.take(OPENING)
        found = child.ask({}, BUILDING)
        child.close()
        if retriever == "bm25":
            self.result["build"].append(found)
        return found

    def open(self) -> None:
        """Start every contender and every server."""
        if {"bm25", "http"} & self._only:
            self._ours("bm25", calls=(1, 32, 1000))
        if "bm25" in self._only:
            self._local("bm25.rank-bm25", "rank-bm25", "bm25", {1: 1.5}, kind="rank-bm25")
            for backend, threads, calls in BM25S:
                said = f"bm25s, {backend}, {max(threads, 1)} thread{'s' * (threads > 1)}"
                self._local(f"bm25.bm25s.{backend}{threads}", said, "bm25", calls, kind="bm25s", backend=backend,
                            threads=threads)  # fmt: skip
        if "dense" in self._only:
            self._local("dense.encoder", "MiniLM alone", "dense", {512: 1.0}, BATCHES, kind="encoder")
        for retriever in ("dense", "hybrid"):
            if retriever in self._only:
                self._ours(retriever, calls=(1, 32, 512))
        self._load = Child("benchmarks.retrieval_load")
        self._stack.callback(self._load.close)
        self._load.take(OPENING)
        if "http" in self._only:
            self._http("bm25")
            self._job("bm25", 16, 32, warm=True)
        for retriever in ("dense", "hybrid"):
            if retriever in self._only:
                self._http(retriever)

    def _local(
        self,
        key: str,
        label: str,
        retriever: str,
        calls: dict[int, float],
        batches: Sequence[int] = (0,),
        **settings: Any,
    ) -> Child:
        """Open a contender: `calls` are questions a call and the share of a measurement's time that they get."""
        say(f"opening {label}")
        child = self._child(self._settings(retriever, **settings))
        opened = child.take(OPENING)
        if opened["built"]:
            self.result["notes"].append(f"bm25s' own build, tokenising and saving included: {opened['built']:.1f} s")
        self._contenders[label] = (child, opened)
        for call, share in calls.items():
            for batch in batches:
                job = {"call": call, "seconds": share * SECONDS[retriever], "topk": TOPK, "batch": batch}
                name = f"{key}.{batch or call}"
                self.result["labels"][name] = f"{label}, {call:,} a call{f', batches of {batch}' if batch else ''}"

                def run(seconds: float, job: dict[str, Any] = job) -> dict[str, Any]:
                    return child.ask({**job, "seconds": seconds * job["seconds"]}, OPENING)

                self._measures[name] = run
        return child

    def _ours(self, retriever: str, calls: tuple[int, ...]) -> None:
        counted = dict.fromkeys(calls, 1.0) if retriever in self._only else {}
        label = f"{retriever} in process"
        child = self._local(f"{retriever}.ours", label, retriever, counted, kind="ours")
        child.ask({"answers": str(self._folder / f"answers-{retriever}.json")}, ANSWERS)

    def _http(self, retriever: str) -> None:
        say(f"starting the service of {retriever}")
        # An encoder shares one batch among threads better than two processes share the cores' caches.
        workers = self._options.workers or (CORES if retriever == "bm25" else max(1, CORES // 2))
        server = Server(Path(self._settings(retriever)["index"]), retriever, workers)
        self._stack.callback(server.close)
        self._servers[retriever] = (server, server.memory())
        for size in report.SIZES:
            for clients in report.CLIENTS if retriever != "hybrid" else (16,):
                self._job(retriever, clients, size)

    def _job(self, retriever: str, clients: int, size: int, warm: bool = False) -> None:
        name = f"{retriever}.{'cached' if warm else 'http'}.{clients}x{size}"
        asked = "queries" if size > 1 else "query"
        self.result["labels"][name] = (
            f"{retriever} by HTTP, {clients} client{'s' * (clients > 1)}, {size} {asked} a request"
            f"{', answered by the cache' if warm else ''}"
        )

        def run(seconds: float) -> dict[str, Any]:
            took = seconds * SECONDS[retriever]
            job = {"clients": clients, "size": size, "topk": TOPK, "warm": warm, "exact": retriever == "bm25",
                   "seconds": took, "warm_up": 0.25 * took, "first": self._settings(retriever)["first"],
                   "questions": str(self._folder / "questions.json"),
                   "answers": str(self._folder / f"answers-{retriever}.json")}  # fmt: skip
            return measure(self._servers[retriever][0], self._load, job)

        self._measures[name] = run

    def rounds(self) -> None:
        """Measure everything in turn, after a round that does not count."""
        names = list(self._measures)
        same: dict[str, list[int]] = {}
        for number in range(-1, self._options.rounds):
            # Another one first in every round: a machine that warms up or slows down favours none.
            shift = max(number, 0) * len(names) // self._options.rounds
            start = time.perf_counter()
            for name in names[shift:] + names[:shift]:
                found = self._measures[name](0.25 if number < 0 else 1.0)
                if number < 0:
                    continue
                for key, value in report.figures(found, CORES).items():
                    self.result["figures"].setdefault(name, {}).setdefault(key, []).append(value)
                if "same" in found and not name.startswith("bm25"):
                    counts = same.setdefault(name.split(".")[0], [0, 0])
                    counts[0] += found["same"]
                    counts[1] += found["queries"]
            say(f"round {number + 1} of {self._options.rounds}: {time.perf_counter() - start:.0f} s")
        # In the order in which they were named, whichever round began with them.
        self.result["figures"] = {name: self.result["figures"][name] for name in names}
        for retriever, (equal, count) in same.items():
            self.result["notes"].append(
                f"{retriever} by HTTP: {equal / count:.2%} of {count:,} answers were the passages of the same search "
                f"in process, in its order; the others differ in near ties"
            )

    def finish(self) -> None:
        """Memory at the end, and what bm25s finds beside ours."""
        for label, (child, opened) in self._contenders.items():
            after = child.ask({"memory": True}, OPENING)
            self.result["memory"][label] = {"opened": opened["memory"], "after": after}
        for retriever, (server, opened) in self._servers.items():
            self.result["memory"][f"service of {retriever}"] = {"opened": opened, "after": server.memory()}
        other = next(
            (child for label, (child, _) in self._contenders.items() if label.startswith("bm25s, numba")), None
        )
        if other is not None:
            file = self._folder / "answers-bm25s.json"
            other.ask({"answers": str(file)}, ANSWERS)
            theirs = json.loads(file.read_text(encoding="utf-8"))
            ours = json.loads((self._folder / "answers-bm25.json").read_text(encoding="utf-8"))
            # bm25s' rows are ids where a corpus numbers its passages, as ours does.
            equal = sum(set(one[:TOPK]) == set(two[:TOPK]) for one, two in zip(ours, theirs, strict=True))
            self.result["notes"].append(
                f"the same {TOPK} passages from bm25s and from ours: {equal / len(ours):.1%} of the questions"
            )
        self.result["goals"] = report.goals(self.result)
