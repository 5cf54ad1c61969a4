"""Figures of an evaluation from its greedy trajectories: each model, paired differences, slices.

Rates have Wilson's interval, means a bootstrap interval. A comparison is paired, question by question: the interval of
a rate's difference is Bonett and Price's, of a mean's a bootstrap of the differences; p is McNemar's test for rates and
Wilcoxon's otherwise. No p is corrected for the number of comparisons. What needs gold passages (hits, citations) is
judged on the questions whose gold passages are known; there an answer without citations has precision 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from tasks.evaluation import endings
from tasks.evaluation.intervals import (
    Bootstrap,
    Interval,
    mcnemar,
    mean_interval,
    rate_difference,
    rate_interval,
    share_difference,
    share_interval,
    wilcoxon,
)

# Figure: column of the trajectories, or of those that `_measured` adds.
METRICS = {
    "success": "success",
    "em": "em",
    "f1": "f1",
    "answer_rate": "answered",
    "format_rate": "format_valid",
    "searches": "searches",
    "turns": "turns",
    "generated_tokens": "generated_tokens",
    "response_tokens": "response_tokens",
}
# Of the questions whose gold passages are known.
WITH_GOLD = {"hit_rate": "hit"}
CITATIONS = {"citation_precision": "citation_precision", "citation_recall": "citation_recall"}
# Of the questions for which a model called a tool: another model may have called none there, so it is not compared.
LATENCY = {"tool_latency": "tool_latency"}
_COLUMNS = METRICS | WITH_GOLD | CITATIONS | LATENCY
RATES = ("success", "em", "answer_rate", "format_rate", "hit_rate")
# Values in [0, 1] that need be neither 0 nor 1; a success is a rate where it is 0 or 1 throughout.
SHARES = ("success", "f1", "citation_precision", "citation_recall")
SLICE_METRICS = ("success", "em", "f1", "format_rate", "searches", "hit_rate")


def summarise(
    frame: pd.DataFrame, *, confidence: float, resamples: int, seed: int, cites: bool = False
) -> dict[str, Any]:
    """Summarise trajectories of several models on the same questions.

    Args:
        frame: a row a trajectory, columns as in `parts.SCHEMA`. Models are compared in the order in which they first
            occur, later minus earlier.
        confidence: level of all intervals, in (0, 1).
        resamples: bootstrap resamples.
        seed: of the bootstrap.
        cites: whether the protocol has cited answers; the figures of `CITATIONS` come with them.

    Returns:
        `{"models": {MODEL: {METRIC: {"mean", "low", "high"}, "n"}}, "comparisons": {"LATER-EARLIER": {METRIC:
        {"mean", "low", "high", "p"}}}, "slices": {MODEL: {"hops-2" | "source-NAME" | "type-NAME": {METRIC: ...,
        "n"}}}, "endings": {MODEL: ...}}`; for the last see `endings.count`. A metric that a model, or a slice, has no
        value of is left out there.

    Raises:
        ValueError: there is no trajectory, the models' questions differ, one occurs twice, or a figure is
            missing.
    """
    how = Bootstrap(confidence, resamples, seed)
    models = _by_model(_measured(frame, cites))
    together = pd.concat(models.values())
    rates = {metric for metric in RATES if together[_COLUMNS[metric]].dropna().isin([0, 1]).all()}

    def interval(values: np.ndarray, metric: str) -> Interval:
        if metric in rates:
            return rate_interval(values, confidence)
        return share_interval(values, how) if metric in SHARES else mean_interval(values, how)

    def of(part: pd.DataFrame, metrics: Iterable[str]) -> dict[str, Any]:
        values = {metric: _values(part, metric) for metric in metrics}
        known = {metric: interval(found, metric).plain() for metric, found in values.items() if len(found)}
        return {**known, "n": len(part)}

    def difference(later: pd.DataFrame, earlier: pd.DataFrame, metric: str) -> dict[str, float]:
        # What a question lacks, it lacks for every model.
        first, second = _values(later, metric), _values(earlier, metric)
        if metric in rates:
            return {**rate_difference(first - second, confidence).plain(), "p": mcnemar(first, second)}
        interval_of = share_difference if metric in SHARES else mean_interval
        return {**interval_of(first - second, how).plain(), "p": wilcoxon(first, second)}

    paired = [metric for metric in (*METRICS, *WITH_GOLD, *CITATIONS) if together[_COLUMNS[metric]].notna().any()]
    return {
        "models": {name: of(part, _COLUMNS) for name, part in models.items()},
        "comparisons": {
            f"{later}-{earlier}": {metric: difference(models[later], models[earlier], metric) for metric in paired}
            for later, earlier in _pairs(list(models))
        },
        "slices": {
            name: {label: of(piece, SLICE_METRICS) for label, piece in _slices(part)} for name, part in models.items()
        },
        "endings": {name: endings.count(part) for name, part in models.items()},
    }


def _measured(frame: pd.DataFrame, cites: bool) -> pd.DataFrame:
    """The trajectories with the columns that figures are made of beside their own; NaN where one has no value."""
    known = frame["gold_passage_ids"].map(len) > 0
    brought = frame["passage_ids"].map(lambda text: {one for passages in json.loads(text) for one in passages})
    hit = pd.Series([set(gold) <= shown for gold, shown in zip(frame["gold_passage_ids"], brought, strict=True)])
    judged = frame["citation_recall"].notna() & cites
    return frame.assign(
        answered=frame["answer"].notna(),
        response_tokens=frame["response_ids"].map(len),
        hit=hit.set_axis(frame.index).astype(float).where(known),
        tool_latency=frame["tool_latencies"].map(lambda seconds: np.mean(seconds) if len(seconds) else np.nan),
        citation_precision=frame["citation_precision"].astype(float).fillna(0.0).where(judged),
        citation_recall=frame["citation_recall"].astype(float).where(judged),
    )


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
    return part[_COLUMNS[metric]].dropna().to_numpy(dtype=np.float64)


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    for i in range(len(names) - 1, 0, -1):
        for j in range(i - 1, -1, -1):
            yield names[i], names[j]


def _slices(part: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for prefix, column in (("hops", "hops"), ("source", "data_source"), ("type", "type")):
        for value, piece in part.groupby(column):
            yield f"{prefix}-{value}", piece
