"""What a search costs: BM25, dense and hybrid, in process and by HTTP, against the libraries alone.

    python -m benchmarks.retrieval [--rounds 3] [--only PART,...] [--workdir FOLDER] [--json FILE]
        [--corpus FILE --questions FILE ...]

One run on one machine; what is compared takes turns, after a round that does not count. By default the corpus is
generated: 47,748 passages with real text's statistics (benchmarks/retrieval_data.py). The dense index of it takes
minutes to encode; its shards stay in --workdir, so that the next run goes on from them. Parts:

- bm25: rank-bm25, bm25s with its numpy and numba back ends, ours, each in a process of its own; tokenising counts
- http: our service of BM25, 1, 16 and 64 clients, 32 queries a request and 1; and once answered by its cache alone
- dense: all-MiniLM-L6-v2 alone (sentence-transformers), our dense search in process, its service
- hybrid: both by rank, in process and its service
- build: the index with BM25, built anew

Processor time is user and system time of all threads and, of a service, of all its processes. The clients are one more
process on the same cores: what they cost is shown apart. Queries/s by HTTP are what both together reach on the
clock; ratios between HTTP and in process are of capacities, queries / (processor seconds / cores), of the server alone.
Every question that is sent is new to the cache, by white space at its end, and every reply is checked against its
query: one that is lost, crossed or refused ends the run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

import tasks.quiet  # noqa: F401  OpenMP's threads sleep while they wait, as in a stage
from benchmarks import retrieval_data as data
from benchmarks import retrieval_report as report
from benchmarks.retrieval_bench import CORES, Bench

PARTS = ("bm25", "http", "dense", "hybrid", "build")


def _machine() -> str:
    wide = ", AVX-512" if "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8") else ""
    memory = round(psutil.virtual_memory().total / 2**30)
    return f"{CORES} cores ({platform.machine()}{wide}), {memory} GiB, Python {platform.python_version()}"


def _parts(text: str) -> set[str]:
    chosen = set(text.split(","))
    if not chosen <= set(PARTS):
        raise argparse.ArgumentTypeError(f"parts are {', '.join(PARTS)}")
    return chosen


def main() -> None:
    """Prepare, measure, print tables."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that what was started is ended
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds of everything (default 3)")
    parser.add_argument("--only", type=_parts, default=set(PARTS), metavar="PART,...", help=", ".join(PARTS))
    parser.add_argument(
        "--corpus", type=Path, metavar="FILE", help="JSON lines of id, title, text (default: generated)"
    )
    parser.add_argument("--questions", type=Path, nargs="+", metavar="FILE", help="JSON lines of question")
    parser.add_argument("--workdir", type=Path, default=Path("data/benchmarks/retrieval"), metavar="FOLDER")
    parser.add_argument(
        "--workers", type=int, help="of a service (default: one a core for bm25, one for every two for an encoder)"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the encoder")
    parser.add_argument("--faiss", choices=("flat", "ivf", "hnsw"), default="flat", help="the dense index")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measured value to FILE")
    options = parser.parse_args()
    if (options.corpus is None) != (options.questions is None):
        parser.error("--corpus and --questions go together")
    options.workdir.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    if options.corpus:
        passages, questions = data.read(options.corpus, options.questions)
    else:
        passages, questions = data.generate(data.PASSAGES, data.QUESTIONS, 0)
    data.write(options.workdir, passages, questions)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, stdout=subprocess.PIPE, text=True)
    told = {key: value for key, value in vars(options).items() if key not in ("workdir", "json")}
    with contextlib.ExitStack() as stack:
        bench = Bench(options, stack)
        bench.build()
        bench.open()
        bench.rounds()
        bench.finish()
        result = {
            "command": f"python -m benchmarks.retrieval {' '.join(sys.argv[1:])}",
            "commit": commit.stdout.strip(),
            "machine": _machine(),
            "options": {**told, "only": sorted(options.only)},
            "passages": len(passages),
            "questions": len(questions),
            **bench.result,
        }
    result["seconds"] = time.perf_counter() - start
    print(report.tables(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
