"""Figures of an evaluation from its trajectories: each model, paired differences, slices.

Rates have Wilson's interval, means a bootstrap interval. A comparison is paired, question by question: its
interval is a bootstrap of the differences, its p McNemar's exact test for rates and Wilcoxon's otherwise.
No p is corrected for the number of comparisons. Citations are judged on the questions whose gold passages are known;
there an answer without any has precision 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tasks.evaluation import endings
from tasks.evaluation.intervals import Bootstrap, Interval, mcnemar, mean_interval, rate_interval, wilcoxon

# Figure: column of the trajectories.
METRICS = {
    "success": "success",
    "em": "em",
    "f1": "f1",
    "format_rate": "format_valid",
    "searches": "searches",
    "turns": "turns",
}
CITATIONS = {"citation_precision": "citation_precision", "citation_recall": "citation_recall"}
RATES = ("success", "em", "format_rate")
SLICE_METRICS = ("em", "searches")


def summarise(
    frame: pd.DataFrame, *, confidence: float, resamples: int, seed: int, cites: bool = False
) -> dict[str, Any]:
    """Summarise trajectories of several models on the same questions.

    Args:
        frame: a row a trajectory: `model`, `question_id`, `data_source`, `hops` and the columns of `METRICS`.
            Models are compared in the order in which they first occur, later minus earlier.
        confidence: level of all intervals, in (0, 1).
        resamples: bootstrap resamples.
        seed: of the bootstrap.
        cites: whether the protocol has cited answers; the figures of `CITATIONS` come with them.

    Returns:
        `{"models": {MODEL: {METRIC: {"mean", "low", "high"}, "n"}}, "comparisons": {"LATER-EARLIER": {METRIC:
        {"mean", "low", "high", "p"}}}, "slices": {MODEL: {"hops-2" | "source-NAME": {METRIC: ..., "n"}}}, "endings":
        {MODEL: ...}}`; for the last see `endings.count`

    Raises:
        ValueError: there is no trajectory, the models' questions differ, one occurs twice, or a figure is
            missing.
    """
    how = Bootstrap(confidence, resamples, seed)
    metrics = list(METRICS)
    if cites:
        judged = frame["citation_recall"].notna()
        precision = frame["citation_precision"].astype(float).fillna(0.0).where(judged)
        frame = frame.assign(citation_precision=precision)
        metrics += [name for name, column in CITATIONS.items() if frame[column].notna().any()]
    models = _by_model(frame)
    # An environment's success may be graded; it is a rate only where it is 0 or 1 throughout.
    rates = {metric for metric in RATES if frame[METRICS[metric]].isin([0, 1]).all()}

    def interval(part: pd.DataFrame, metric: str) -> Interval:
        values = _values(part, metric)
        return rate_interval(values, confidence) if metric in rates else mean_interval(values, how)

    def difference(later: pd.DataFrame, earlier: pd.DataFrame, metric: str) -> dict[str, float]:
        # What a question lacks, it lacks for every model.
        first, second = _values(later, metric), _values(earlier, metric)
        test = mcnemar if metric in rates else wilcoxon
        return {**mean_interval(first - second, how).plain(), "p": test(first, second)}

    return {
        "models": {
            name: {**{metric: interval(part, metric).plain() for metric in metrics}, "n": len(part)}
            for name, part in models.items()
        },
        "comparisons": {
            f"{later}-{earlier}": {metric: difference(models[later], models[earlier], metric) for metric in metrics}
            for later, earlier in _pairs(list(models))
        },
        "slices": {
            name: {
                label: {**{metric: interval(piece, metric).plain() for metric in SLICE_METRICS}, "n": len(piece)}
                for label, piece in _slices(part)
            }
            for name, part in models.items()
        },
        "endings": {name: endings.count(part) for name, part in models.items()},
    }


def _by_model(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    if frame.empty:
        raise ValueError("no trajectories to summarise")
    columns = [*METRICS.values(), "question_id", "hops", "data_source"]
    if frame[columns].isna().any(axis=None):
        raise ValueError(f"a figure is missing in column {frame[columns].isna().any().idxmax()!r}")
    models = {
        str(name): part.sort_values("question_id").reset_index(drop=True)
        for name, part in frame.groupby("model", sort=False)
    }
    first, questions = next((name, part["question_id"]) for name, part in models.items())
    for name, part in models.items():
        if part["question_id"].duplicated().any():
            raise ValueError(f"model {name!r} answered a question twice")
        if not part["question_id"].equals(questions):
            raise ValueError(f"models {first!r} and {name!r} answered different questions")
    return models


def _values(part: pd.DataFrame, metric: str) -> np.ndarray:
    return part[(METRICS | CITATIONS)[metric]].dropna().to_numpy(dtype=np.float64)


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    for i in range(len(names) - 1, 0, -1):
        for j in range(i - 1, -1, -1):
            yield names[i], names[j]


def _slices(part: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for hops, piece in part.groupby("hops"):
        yield f"hops-{hops}", piece
    for source, piece in part.groupby("data_source"):
        yield f"source-{source}", piece
