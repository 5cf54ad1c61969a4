"""What searches in a process of its own: a contender of `benchmarks.retrieval`.

    python -m benchmarks.retrieval_local SETTINGS

A call searches so many questions, tokenised or encoded within the call; each question is used once before any is used
again. Contenders:

- rank-bm25: its BM25Okapi, one question a call
- bm25s: mapped into memory, as ours is, with the back end and threads of the settings, over the same index texts with
  the same stemmer; it returns rows, no passages
- encoder: sentence-transformers' encode alone, in batches of a size that each call names: what no search can outdo
- ours: `open_retriever`, in this process; it returns whole passages

`build` is none: it builds an index.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tasks.quiet  # noqa: F401  OpenMP's threads sleep while they wait, as in a stage
from benchmarks.retrieval_child import answer
from benchmarks.retrieval_load import NEAR

Search = Callable[[list[str], int], list[list[str]]]
_WORD = r"(?u)\b\w+\b"


def _texts(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "corpus.parquet", columns=["title", "text"]).to_pydict()
    return [f"{title}\n{text}" for title, text in zip(table["title"], table["text"], strict=True)]


def _rank_bm25(folder: Path, settings: dict[str, Any]) -> Search:
    import bm25s
    import numpy as np
    import Stemmer
    from rank_bm25 import BM25Okapi

    stemmer = Stemmer.Stemmer("english")

    def words(texts: list[str]) -> list[list[str]]:
        found = bm25s.tokenize(texts, stemmer=stemmer, token_pattern=_WORD, return_ids=False, show_progress=False)
        return list(found)

    model = BM25Okapi(words(_texts(folder)), k1=settings["k1"], b=settings["b"])

    def search(questions: list[str], topk: int) -> list[list[str]]:
        scores = [model.get_scores(one) for one in words(questions)]
        return [[str(row) for row in np.argsort(-one, kind="stable")[:topk]] for one in scores]

    return search


def _bm25s(folder: Path, settings: dict[str, Any]) -> Search:
    import bm25s
    import Stemmer

    stemmer, built = Stemmer.Stemmer("english"), folder / "bm25s"
    if not built.exists():
        start = time.perf_counter()
        tokens = bm25s.tokenize(_texts(folder), stemmer=stemmer, token_pattern=_WORD, show_progress=False)
        made = bm25s.BM25(k1=settings["k1"], b=settings["b"], method="lucene")
        made.index(tokens, show_progress=False)
        made.save(built, show_progress=False)
        settings["built"] = time.perf_counter() - start
    model = bm25s.BM25.load(built, mmap=True, show_progress=False)
    model.backend = settings["backend"]

    def search(questions: list[str], topk: int) -> list[list[str]]:
        tokens = bm25s.tokenize(questions, stemmer=stemmer, token_pattern=_WORD, show_progress=False)
        rows, _ = model.retrieve(tokens, k=topk, n_threads=settings["threads"], show_progress=False)
        return [[str(row) for row in found] for found in rows.tolist()]

    return search


def _encoder(folder: Path, settings: dict[str, Any]) -> Search:
    import torch
    from sentence_transformers import SentenceTransformer

    from benchmarks.retrieval_data import minilm

    torch.set_num_threads(os.cpu_count() or 1)
    model = SentenceTransformer(str(minilm()), device="cpu", local_files_only=True)
    model = model.to(dtype=getattr(torch, settings["dtype"]))

    def search(questions: list[str], topk: int) -> list[list[str]]:
        model.encode(questions, batch_size=settings["batch"], normalize_embeddings=True, show_progress_bar=False)
        return [[] for _ in questions]

    return search


def _ours(folder: Path, settings: dict[str, Any]) -> Search:
    from benchmarks.retrieval_data import sections
    from tasks.retrieval import open_retriever

    retriever = open_retriever(Path(settings["index"]), sections(settings)[1])
    return lambda questions, topk: [[hit.passage.id for hit in hits] for hits in retriever.search(questions, topk)]


CONTENDERS = {"rank-bm25": _rank_bm25, "bm25s": _bm25s, "encoder": _encoder, "ours": _ours}


def _memory() -> dict[str, float]:
    import psutil

    now = psutil.Process().memory_full_info()
    return {"rss": now.rss / 2**20, "private": now.uss / 2**20}


class Contender:
    """One of `CONTENDERS`, opened.

    Args:
        settings: `kind`, `folder` and what the kind needs.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder, self._settings, self._next = Path(settings["folder"]), settings, 0
        start = time.perf_counter()
        self._search = CONTENDERS[settings["kind"]](self._folder, settings)
        self.opened = {"seconds": time.perf_counter() - start, "memory": _memory(), "built": settings.get("built")}
        questions = json.loads((self._folder / "questions.json").read_text(encoding="utf-8"))
        self._questions: list[str] = questions[: settings.get("first")]

    def handle(self, message: dict[str, Any]) -> dict[str, Any]:
        """`{"call", "seconds", "topk", "batch"}`: search so long, so many a call; or `answers`, or `memory`."""
        if "memory" in message:
            return _memory()
        if "answers" in message:
            found: list[list[str]] = []
            for start in range(0, len(self._questions), 256):
                found += self._search(self._questions[start : start + 256], NEAR)
            Path(message["answers"]).write_text(json.dumps(found), encoding="utf-8")
            return {}
        self._settings["batch"] = message["batch"]
        return self._measure(message["call"], message["seconds"], message["topk"])

    def _measure(self, call: int, seconds: float, topk: int) -> dict[str, Any]:
        import numpy as np

        times: list[float] = []
        spent, start = time.process_time(), time.perf_counter()
        while time.perf_counter() - start < seconds:
            questions = [self._questions[(self._next + i) % len(self._questions)] for i in range(call)]
            self._next += call
            before = time.perf_counter()
            self._search(questions, topk)
            times.append(time.perf_counter() - before)
        wall, spent = time.perf_counter() - start, time.process_time() - spent
        p50, p99 = np.percentile(times, [50, 99])
        return {"queries": call * len(times), "wall": wall, "cpu": spent, "p50": p50, "p99": p99}


def build_index(settings: dict[str, Any]) -> dict[str, float]:
    """Build an index into `index`; seconds without imports, and the most memory that this process held, MiB."""
    from benchmarks.retrieval_data import sections
    from tasks.retrieval.index.build import build

    index, retrieval = sections(settings)
    target = Path(settings["index"])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    resume = Path(settings["resume"]) if settings["resume"] else None
    start = time.perf_counter()
    build(
        Path(settings["folder"]) / "corpus.parquet",
        target,
        index,
        lambda line: print(line, file=sys.stderr, flush=True),
        retrieval=retrieval,
        resume=resume,
    )
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}


def _main(settings: dict[str, Any]) -> None:
    if settings["kind"] == "build":
        answer(lambda message: build_index(settings), {})
        return
    contender = Contender(settings)
    answer(contender.handle, contender.opened)


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
