"""Questions and passages as parquet: verl's row form and the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.agent.environments import Environment
from tasks.qa.records import Passage, Question, Split

AGENT = "forager"
ABILITY = "fact-reasoning"

_TEXTS = pa.list_(pa.string())
_CORPUS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string()), ("url", pa.string())])


def row(question: Question, index: int, split: Split, environment: Environment, template: str) -> dict[str, Any]:
    """A question as a row of the data contract.

    `tools_kwargs` is None: parquet can't hold an empty structure, and verl reads None as none.

    Args:
        question: what is asked.
        index: position in its split.
        split: where the question belongs.
        environment: what makes the prompt and the ground truth.
        template: `episode.prompt`.
    """
    return {
        "data_source": question.data_source,
        "environment": environment.name,
        "agent_name": AGENT,
        "prompt": environment.prompt(question.question, template),
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": environment.ground_truth(asdict(question))},
        "extra_info": {
            "index": index,
            "split": split,
            "id": question.id,
            "question": question.question,
            "golden_answers": list(question.golden_answers),
            "hops": question.hops,
            "supporting_titles": list(question.supporting_titles),
            "gold_passage_ids": list(question.gold_passage_ids),
            "tools_kwargs": None,
        },
    }


def _schema(ground_truth: pa.DataType) -> pa.Schema:
    """Columns of the rows; the ground truth's form is the environment's."""
    extra_info = pa.struct(
        [
            ("index", pa.int64()),
            ("split", pa.string()),
            ("id", pa.string()),
            ("question", pa.string()),
            ("golden_answers", _TEXTS),
            ("hops", pa.int64()),
            ("supporting_titles", _TEXTS),
            ("gold_passage_ids", _TEXTS),
            ("tools_kwargs", pa.null()),
        ]
    )
    return pa.schema(
        [
            ("data_source", pa.string()),
            ("environment", pa.string()),
            ("agent_name", pa.string()),
            ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", ground_truth)])),
            ("extra_info", extra_info),
        ]
    )


def write_splits(
    folder: Path, splits: dict[Split, list[Question]], environment: Environment, template: str
) -> dict[Split, int]:
    """Write `SPLIT.parquet` for every split, all with the same columns, an empty one too; returns the row counts."""
    rows = {
        split: [row(question, index, split, environment, template) for index, question in enumerate(questions)]
        for split, questions in splits.items()
    }
    truths = [one["reward_model"]["ground_truth"] for part in rows.values() for one in part]
    schema = _schema(pa.array(truths).type)
    for split, part in rows.items():
        pq.write_table(pa.Table.from_pylist(part, schema), folder / f"{split}.parquet", compression="zstd")
    return {split: len(part) for split, part in rows.items()}


def write_corpus(path: Path, passages: Sequence[Passage]) -> None:
    """Write passages as columns `id, title, text, url`."""
    pq.write_table(pa.Table.from_pylist([asdict(p) for p in passages], _CORPUS), path, compression="zstd")
