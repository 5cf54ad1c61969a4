"""Stage `index`: BM25 and dense over the corpus, and how well they find the gold passages.

Decided: both retrievers are always built and measured, so that `retrieval.retriever` can be changed on
figures; the gate looks at the configured one. The folder holds the passages too: a worker opens it alone.
Recall is measured with the question as the only query, on held-out questions spread over each split.

    python -m tasks.index
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.agent import environments
from tasks.contract import Figures, Stage, main
from tasks.retrieval import open_retriever, recall
from tasks.retrieval.build import build
from tasks.retrieval.passages import Passages

RETRIEVERS = ("bm25", "dense")


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
    figures: Figures = {"passages": 0, "recall": {}, "all_support": {}, "lowest_recall_at_3": None}
    if not environments.create(stage.params.environment).needs_retrieval:
        stage.say(f"environment {stage.params.environment.name!r} searches nothing: no index")
        return figures
    section = stage.params.index
    figures["passages"] = build(stage.input("ingest", "corpus.parquet"), stage.out, section, stage.say)["passages"]
    rows = [
        row
        for split in ("validation", "test")
        for row in held_out(stage.input("ingest", f"{split}.parquet"), section.recall_questions)
    ]
    questions, without = recall.gold_questions(rows)
    figures |= {"questions": len(questions), "questions_without_gold": without}
    if without:
        stage.say(f"{without} of {len(rows)} questions name no gold passage and are left out of recall")
    recall.require_gold(Passages(stage.out), questions)
    for name in RETRIEVERS if questions else ():
        retriever = open_retriever(stage.out, stage.params.retrieval.model_copy(update={"retriever": name}))
        measured = recall.measure(retriever, questions)
        figures["recall"][name], figures["all_support"][name] = measured["recall"], measured["all_support"]
        for source, at in measured["recall"].items():
            everything = measured["all_support"][source]["3"]
            stage.say(f"{name}, {source}: recall@3 {at['3']:.3f}, @10 {at['10']:.3f}, all support @3 {everything:.3f}")
    chosen = figures["recall"].get(stage.params.retrieval.retriever, {})
    figures["lowest_recall_at_3"] = min((at["3"] for at in chosen.values()), default=None)
    stage.track.log_artifact(stage.out / "manifest.json")
    return figures


if __name__ == "__main__":
    main("index", run)
