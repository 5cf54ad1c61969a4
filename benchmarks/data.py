"""How long ingest, validation and the search for near-duplicates take, and how much memory, on generated questions.

    python -m benchmarks.data [--rows 169615] [--repeat 3]

The default is the size of Search-R1's training set: as many one-hop questions as it has of NQ (79,168), the rest of
two hops, as of HotpotQA; beside them a held-out set a twentieth as large. Each part runs in a process of its own;
the time begins after its imports, the memory is the most that the process ever held. Parts:

- ingest: JSON lines in, mixed and ordered parquet out; without the search for near-duplicates
- validate: Great Expectations over its outputs: columns, answers, order, exact leakage; without prompt lengths
- near: near-duplicates within the training rows, and between them and the held-out ones
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROWS = 169_615
ONE_HOP = 79_168 / ROWS
HELD_OUT = 0.05
WORDS = 50_000
PARTS = ("ingest", "validate", "near")


def questions(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Questions of 6 to 16 words, half of them frequent; answers as skewed as real ones, 3 % of them yes and no."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3)) for _ in range(WORDS)]
    frequent = vocabulary[:60]
    entities = max(100, count // 3)
    for number in range(count):
        one_hop = rng.random() < ONE_HOP
        length = rng.randint(6, 16)
        words = rng.choices(frequent, k=length // 2) + rng.choices(vocabulary, k=length - length // 2)
        # A power law: the most frequent answers are shared by hundreds of questions, most by one or two.
        entity = int(entities * rng.random() ** 2)
        answer = rng.choice(("yes", "no")) if rng.random() < 0.03 else f"{vocabulary[entity % WORDS]} {entity}"
        yield {
            "id": f"{seed}-{number}",
            "data_source": "nq" if one_hop else "hotpotqa",
            "question": " ".join(words) + "?",
            "golden_answers": [answer],
            "hops": 1 if one_hop else 2,
        }


def _write(path: Path, count: int, seed: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in questions(count, seed))


def _settings(folder: Path) -> Any:
    from tasks import params

    sources = [
        {"reader": "jsonl", "name": "generated", "path": f"{split}.jsonl", "split": split}
        for split in ("train", "test")
    ]
    content = params.resolve("tiny")
    top = {"ingest": {"data_dir": str(folder), "sources": sources, "drop_near_duplicates": False}}
    return params.parse(params.overlay(content, top), where="benchmark")


def _ingest(folder: Path) -> Callable[[], None]:
    from tasks.agent import environments, prompts
    from tasks.qa import gathering, mixing, rows

    settings = _settings(folder)

    def run() -> None:
        gathered = gathering.gather(
            settings.ingest, settings.seed, folder / "questions.arrow", folder / "corpus.parquet", lambda line: None
        )
        mixing.check(gathered.table, gathered.passage_ids)
        mixed = mixing.mix(gathered.table, settings.ingest, settings.seed)
        environment = environments.create(settings.environment)
        template = prompts.of_params(settings.episode, settings.tools)
        rows.write_splits(folder, gathered.table, mixed.splits, environment, template)

    return run


def _validate(folder: Path) -> Callable[[], None]:
    from tasks.qa.suite import catalogue
    from tasks.qa.suite.checking import Settings, check

    settings = _settings(folder).validate_
    chosen = Settings(
        stage=True,
        severities=catalogue.severities({}),
        false_alarm=settings.false_alarm,
        min_rows=settings.min_rows,
        say=lambda line: None,
        near=False,
    )

    def run() -> None:
        tables = {split: folder / f"{split}.parquet" for split in ("train", "validation", "test")}
        with tempfile.TemporaryDirectory() as docs:
            check(tables, chosen, Path(docs, "docs"))

    return run


def _near(folder: Path) -> Callable[[], None]:
    from tasks.qa import near

    def texts(split: str) -> near.Texts:
        with (folder / f"{split}.jsonl").open(encoding="utf-8") as file:
            found = [(row["question"], row["golden_answers"]) for row in map(json.loads, file)]
        return near.Texts((one for one, _ in found), (answers for _, answers in found), ((),) * len(found))

    def run() -> None:
        train, held = texts("train"), texts("test")
        near.duplicates(train)
        near.held_out_pairs(train, held)

    return run


def _child(part: str, folder: Path) -> None:
    run = {"ingest": _ingest, "validate": _validate, "near": _near}[part](folder)
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "gib": peak}))


def main() -> None:
    """Generate the questions, run every part, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data", description=main.__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"training questions (default {ROWS})")
    parser.add_argument("--repeat", type=int, default=3, help="runs of every part (default 3)")
    parser.add_argument("--child", nargs=2, metavar=("PART", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child[0], Path(options.child[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        _write(Path(name, "train.jsonl"), options.rows, 0)
        _write(Path(name, "test.jsonl"), round(HELD_OUT * options.rows), 1)
        print(f"{options.rows:,} training rows, {options.repeat} runs each: median (least to most)")
        for part in PARTS:
            runs = []
            for _ in range(options.repeat):
                command = [sys.executable, "-m", "benchmarks.data", "--child", part, name]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                runs.append(json.loads(done.stdout.splitlines()[-1]))
            seconds = [run["seconds"] for run in runs]
            told = f"{median(seconds):6.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"
            print(f"{part:9}{told}, peak {max(run['gib'] for run in runs):.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
