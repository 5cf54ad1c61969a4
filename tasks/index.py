"""Stage `index`: the index over the corpus, and how well every retriever on it finds the gold passages.

Decided: whatever `index.build` names is built and measured, so that `retrieval.retriever` can be changed on figures;
the gate looks at the configured one. The folder holds the passages too: a worker opens it alone. All of it is measured
in this process, on held-out questions spread over each split: tasks/retrieval/quality.py says what. A build that was
killed goes on from what it has left under checkpoints/.

    python -m tasks.index
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.agent import environments
from tasks.contract import Figures, Stage, main
from tasks.evaluation import headroom
from tasks.params import Index
from tasks.params.searching import NEEDS
from tasks.retrieval import open_retriever, quality
from tasks.retrieval.index.build import build
from tasks.retrieval.index.passages import Passages

_BY_RETRIEVER = ("recall", "all_support", "mrr", "oracle", "headroom", "by_hops", "by_title")
_PICTURE = "retrieval.png"


def spread(rows: list[Any], count: int) -> list[Any]:
    """At most `count` rows, evenly spaced, so that every source of a sorted file is met."""
    if len(rows) <= count:
        return rows
    return [rows[i * len(rows) // count] for i in range(count)]


def held_out(path: Path, count: int) -> list[dict[str, Any]]:
    """At most `count` rows of a split."""
    return spread(pq.read_table(path, columns=["data_source", "extra_info"]).to_pylist(), count)


def run(stage: Stage) -> Figures:
    """Build the index, measure it."""
    figures: Figures = {"passages": 0, **{name: {} for name in _BY_RETRIEVER}, **quality.lowest({}, "")}
    if not environments.create(stage.params.environment).needs_retrieval:
        stage.say(f"environment {stage.params.environment.name!r} searches nothing: no index")
        return figures
    section, retrieval = stage.params.index, stage.params.retrieval
    corpus = stage.input("ingest", "corpus.parquet")
    if not NEEDS[retrieval.retriever] and not pq.read_metadata(corpus).num_rows:
        stage.say(f"retriever {retrieval.retriever!r} needs no index, and there are no passages: nothing is measured")
        _say_unmeasured(stage)
        return figures
    _build(stage, corpus)
    figures["passages"] = len(Passages(stage.out))
    rows = [
        row
        for split in ("validation", "test")
        for row in held_out(stage.input("ingest", f"{split}.parquet"), section.recall_questions)
    ]
    questions, without = quality.gold_questions(rows)
    untitled = sum(not question.titles for question in questions)
    figures |= {
        "questions": len(questions),
        "questions_without_gold": without,
        "questions_without_titles": untitled,
        "by_source": quality.counts(questions),
    }
    if without:
        stage.say(f"{without} of {len(rows)} questions name no gold passage and are measured nowhere")
    if untitled:
        stage.say(f"{untitled} of {len(questions)} questions name no supporting title and have no oracle")
    quality.require_gold(Passages(stage.out), questions)
    for name in measurable(section) if questions else ():
        # In this process: where the agent's searches go through a server, its index is this one all the same.
        retriever = open_retriever(stage.out, retrieval.model_copy(update={"retriever": name, "server": None}))
        measured = quality.measure(retriever, questions)
        for key in _BY_RETRIEVER:
            figures[key][name] = measured[key]
        stage.say(f"{name}: measured on {len(questions):,} questions")
    figures |= quality.lowest(figures, retrieval.retriever)
    for line in quality.table(figures):
        stage.say(line)
    stage.track.log_artifact(stage.out / "manifest.json")
    if retrieval.retriever in figures["by_hops"]:
        _log_picture(stage, figures)
    else:
        _say_unmeasured(stage)
    return figures


def measurable(section: Index) -> list[str]:
    """The retrievers that work on what is built."""
    return [name for name, needs in NEEDS.items() if needs and needs <= set(section.build)]


def _build(stage: Stage, corpus: Path) -> None:
    resume = Path("checkpoints", stage.fingerprint())
    removed = resume.with_name(f".{resume.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)
    resume.mkdir(parents=True, exist_ok=True)
    build(corpus, stage.out, stage.params.index, resume=resume, say=stage.say, retrieval=stage.params.retrieval)
    stage.when_done(partial(_drop, resume, removed))


def _drop(resume: Path, removed: Path) -> None:
    # Renamed first: a kill on the way must not leave half a build that the next start would resume.
    os.replace(resume, removed)
    shutil.rmtree(removed)


def _log_picture(stage: Stage, figures: Figures) -> None:
    # Beside the index it would be an input of all later stages, which a line drawn otherwise would make stale.
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder, _PICTURE)
        headroom.write(figures, stage.params.retrieval.retriever, picture)
        stage.track.log_artifact(picture)


def _say_unmeasured(stage: Stage) -> None:
    stage.say(
        f"warning: nothing is measured of retriever {stage.params.retrieval.retriever!r}: gate checks on "
        "index.lowest_* fail, unless they are given the severity warning"
    )


if __name__ == "__main__":
    main("index", run)
