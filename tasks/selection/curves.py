"""Learning curves of questions from the rollout log: each question's share of successes, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tasks.errors import InputError

LEAST = 2  # epochs: one value is no curve
# An epoch counts when this share of the questions had it, so that a question whose rollouts were lost, or which a
# sampler has passed over, does not take an epoch from all others.
WHOLE = 0.9
_KNOWN = ("data_source", "question", "golden_answers", "hops")


@dataclass(frozen=True)
class Curves:
    """Curves of the questions that have had every whole epoch.

    Attributes:
        ids: of the questions, ascending.
        shares: share of successes of question i in epoch k, shape (n, epochs).
        known: what the log knows of each question, a row each, by id.
        short: how many questions had fewer visits and are left out.
        late: how many visits came after the last whole epoch and are not counted.
    """

    ids: tuple[str, ...]
    shares: np.ndarray
    known: pd.DataFrame
    short: int
    late: int


def read(rollouts: Path, *, asked: int | None = None) -> Curves:
    """Curves of an RL run.

    Epoch k of a question is the k-th step in which it was played. The run has as many whole epochs as 90 % of its
    questions have had; questions with fewer are left out, and what came after the last whole epoch is not counted.

    Args:
        rollouts: folder of the rollout log, `train_00001.parquet` and so on.
        asked: how many questions the run had to go through, where that is known.

    Raises:
        InputError: there is no log, a table of it is broken, or it has fewer than two whole epochs.
    """
    tables = sorted(rollouts.glob("train_*.parquet"))
    if not tables:
        raise InputError("no rollouts of training steps", where=str(rollouts), mend="run `dvc repro rl`")
    columns = ["question_id", "step", "success", *_KNOWN]
    frame = pd.concat([_step(path, columns) for path in tables], ignore_index=True)
    visits = frame.groupby(["question_id", "step"], as_index=False)["success"].mean()  # by id, then by step
    visits["epoch"] = visits.groupby("question_id").cumcount()
    had = visits.groupby("question_id").size()
    questions = max(len(had), asked or 0)
    epochs = _whole_epochs(had.to_numpy(), questions)
    if epochs < LEAST:
        a_step = len(visits) / len(tables)
        raise InputError(
            f"{LEAST} whole epochs are needed, and it has {epochs}: {len(visits)} visits of {questions} questions in "
            f"{len(tables)} steps, {len(visits) / questions:.1f} a question",
            where=str(rollouts),
            mend=f"raise rl.steps to {LEAST * ceil(questions / a_step)}, or name fewer questions in demos.rl_questions",
        )
    ids = tuple(sorted(str(one) for one in had.index[had >= epochs]))
    counted = visits[visits["question_id"].isin(ids) & (visits["epoch"] < epochs)]
    shares = counted.pivot(index="question_id", columns="epoch", values="success").loc[list(ids)].to_numpy(dtype=float)
    return Curves(
        ids=ids,
        shares=shares,
        known=frame.drop_duplicates("question_id").set_index("question_id")[list(_KNOWN)].loc[list(ids)],
        short=questions - len(ids),
        late=int((had - epochs).clip(lower=0).sum()),
    )


def _step(path: Path, columns: list[str]) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, columns=columns)
    except (pa.ArrowException, OSError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"cannot be read: {why}", where=str(path), mend="name a run's log, as docs/rollouts.md says"
        ) from None


def _whole_epochs(had: np.ndarray, questions: int) -> int:
    """The most visits that at least `WHOLE` of the questions have had.

    Args:
        had: visits of each question that was visited, shape (n,).
        questions: of the run, visited or not.
    """
    place = ceil(WHOLE * questions)
    return int(np.sort(had)[-place]) if place <= len(had) else 0
