"""Whether an evaluation repeats: a hash over what a model wrote, and what changes with the size of the batches."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pandas as pd


def repeat_figures(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """For every model the hash of its answers, and under which settings of the engine they repeat.

    Args:
        frame: greedy trajectories, columns as in `parts.SCHEMA`.

    Returns:
        `{MODEL: {"answers_sha256", "max_num_seqs", "dtype", "engine", "device", ...}}`
    """
    return {
        str(model): {"answers_sha256": answers_sha256(part), **json.loads(part["sampling"].iloc[0])}
        for model, part in frame.groupby("model", sort=False)
    }


def answers_sha256(part: pd.DataFrame) -> str:
    """Hash over question id, segments and answer of one model's trajectories, whatever the order of the rows.

    A line a trajectory, by question id: a JSON list of the three, `segments` as the column has it, UTF-8.
    """
    digest = hashlib.sha256()
    for row in part.sort_values("question_id").itertuples():
        digest.update(json.dumps([row.question_id, row.segments, _answer(row.answer)]).encode() + b"\n")
    return digest.hexdigest()


def batch_figures(frame: pd.DataFrame, smaller: pd.DataFrame) -> dict[str, int]:
    """How many questions end otherwise when fewer sequences make up a batch.

    Args:
        frame: a model's greedy trajectories.
        smaller: its trajectories of some of the same questions, in smaller batches.

    Returns:
        `{"questions", "answers_changed", "trajectories_changed"}`; a trajectory has changed when a token has.
    """
    played = frame.set_index("question_id").loc[smaller["question_id"]]
    answers = zip(played["answer"], smaller["answer"], strict=True)
    pairs = zip(played["response_ids"], smaller["response_ids"], strict=True)
    return {
        "questions": len(smaller),
        "answers_changed": sum(_answer(before) != _answer(after) for before, after in answers),
        "trajectories_changed": sum(list(before) != list(after) for before, after in pairs),
    }


def _answer(value: Any) -> str | None:
    """An answer out of a frame; none is another than an empty one."""
    return None if pd.isna(value) else value
