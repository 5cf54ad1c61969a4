"""Which of RL's own trajectories rejection-sampled fine-tuning trains on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# What the trainer is given, as the engine had it: nothing is ever encoded again.
IDS = ("prompt_ids", "response_ids", "response_mask")
_JUDGED = ("success", "format_valid", "stop_reason", "copied_example")
_NAMED = ("question_id", "step", "sample")


@dataclass(frozen=True)
class Chosen:
    """Trajectories, a row each.

    Attributes:
        train: what is trained on: `question_id`, `step`, `sample`, and token ids and mask.
        validation: those held back, of other questions.
        successful: how many there were to choose from.
        distinct: how many of these differ in a token, or in their question.
    """

    train: pd.DataFrame
    validation: pd.DataFrame
    successful: int
    distinct: int

    @property
    def questions(self) -> int:
        """How many questions are trained on."""
        return int(self.train["question_id"].nunique())


def successful(rollouts: Path) -> pd.DataFrame:
    """Training trajectories of all steps that were right, in form, ended by their answer, and not the prompt's example.

    Args:
        rollouts: folder of the rollout log, `train_00001.parquet` and so on.

    Returns:
        columns `question_id`, `step`, `sample`, `prompt_ids`, `response_ids`, `response_mask`
    """
    parts = []
    for path in sorted(rollouts.glob("train_*.parquet")):
        frame = pd.read_parquet(path, columns=[*_NAMED, *_JUDGED, *IDS])
        right = (frame["success"] == 1) & frame["format_valid"] & (frame["stop_reason"] == "answer")
        parts.append(frame[right & ~frame["copied_example"]][[*_NAMED, *IDS]])
    return pd.concat(parts, ignore_index=True)


def choose(frame: pd.DataFrame, *, per_question: int, held_back: int, seed: int) -> Chosen:
    """Draw distinct trajectories of every question, and hold whole questions back.

    A second trajectory of the same tokens would only weigh the first one twice: the paper's gain comes from distinct
    ones (Yuan et al. 2023, section 3.3). The order of the rows does not matter.

    Args:
        frame: as `successful` returns it.
        per_question: most trajectories of a question.
        held_back: at least so many trajectories are held back, if there are so many.
        seed: of the draw.
    """
    ordered = frame.sort_values(["question_id", "step", "sample"], kind="stable")
    tokens = ordered["response_ids"].map(lambda ids: tuple(map(int, ids)))
    distinct = ordered[~pd.DataFrame({"question": ordered["question_id"], "tokens": tokens}).duplicated()]
    random = np.random.default_rng(seed)
    drawn = distinct.iloc[random.permutation(len(distinct))].groupby("question_id").head(per_question)
    questions = random.permutation(np.array(sorted(drawn["question_id"].unique()), dtype=object))
    counts = drawn["question_id"].value_counts().reindex(questions).to_numpy()
    needed = int(np.searchsorted(np.cumsum(counts), held_back)) + 1
    back = drawn["question_id"].isin(questions[:needed])
    return Chosen(
        train=drawn[~back].reset_index(drop=True),
        validation=drawn[back].reset_index(drop=True),
        successful=len(frame),
        distinct=len(distinct),
    )
