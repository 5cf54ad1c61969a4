"""All figures of what an evaluation has played; tasks/evaluation/metrics.py has those of the greedy trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tasks.agent import protocols
from tasks.evaluation import metrics, repeats, sampling
from tasks.evaluation.intervals import Bootstrap, share_interval
from tasks.evaluation.playing import Played
from tasks.params import Playing
from tasks.params.judging import Evaluate


def summarise(played: Played, frame: pd.DataFrame, settings: Evaluate, playing: Playing, seed: int) -> dict[str, Any]:
    """Summarise an evaluation.

    Args:
        played: everything that was played.
        frame: its greedy trajectories.
        settings: the section `evaluate`.
        playing: what was played by.
        seed: of the bootstrap.

    Returns:
        what `metrics.summarise` returns, and `{"confidence", "repeat": {MODEL: ...}, "throughput": {MODEL: ...},
        "batch_check": {"max-seqs-8": ...}, "pass_at": {MODEL: {K: {"mean", "low", "high"}}}}`; the last two only
        where they are asked for
    """
    how = Bootstrap(settings.confidence, settings.bootstrap, seed)
    cites = protocols.create(playing.episode.protocol, playing.tools.names).cites
    found = metrics.summarise(
        frame, confidence=settings.confidence, resamples=settings.bootstrap, seed=seed, cites=cites
    )
    found |= {
        "confidence": settings.confidence,
        "repeat": repeats.repeat_figures(frame),
        "throughput": _throughput(frame, played.seconds),
    }
    if played.smaller:
        checked = frame[frame["model"] == list(played.seconds)[-1]]
        found["batch_check"] = {
            f"max-seqs-{size}": repeats.batch_figures(checked, table.to_pandas())
            for size, table in played.smaller.items()
        }
    if played.sampled is not None and settings.pass_at is not None:
        outcomes = played.sampled.select(["model", "question_id", "success"]).to_pandas()
        found["pass_at"] = pass_at(outcomes, settings.pass_at.k, how)
    return found


def pass_at(outcomes: pd.DataFrame, ks: Sequence[int], how: Bootstrap) -> dict[str, dict[str, dict[str, float]]]:
    """pass@k of every model: the mean over questions, its interval a bootstrap over questions.

    Args:
        outcomes: a row a sample: `model`, `question_id`, `success`; one that is above 0 has succeeded.
        ks: none of them more than the samples of a question.
        how: level, resamples and seed.

    Returns:
        `{MODEL: {K: {"mean", "low", "high"}}}`, K as text
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for model, part in outcomes.groupby("model", sort=False):
        groups = [list(group > 0) for _, group in part.groupby("question_id")["success"]]
        found[str(model)] = {
            str(k): share_interval(np.array([sampling.pass_at_k(group, k) for group in groups]), how).plain()
            for k in ks
        }
    return found


def _throughput(frame: pd.DataFrame, seconds: dict[str, float]) -> dict[str, dict[str, float]]:
    """Episodes and generated tokens a second of one engine, without its start."""
    parts = frame.groupby("model", sort=False)["generated_tokens"].agg(["size", "sum"])
    return {
        str(model): {
            "episodes_per_second": float(part["size"] / seconds[str(model)]),
            "generated_tokens_per_second": float(part["sum"] / seconds[str(model)]),
        }
        for model, part in parts.iterrows()
    }


def lines(figures: dict[str, Any]) -> list[str]:
    """What the stage says of them."""
    said = []
    for name, model in figures["models"].items():
        em = model["em"]
        said.append(f"{name}: EM {em['mean']:.3f} [{em['low']:.3f}, {em['high']:.3f}] on {model['n']:,} questions")
    for name, ks in figures.get("pass_at", {}).items():
        said.append(f"{name}: " + ", ".join(f"pass@{k} {of['mean']:.3f}" for k, of in ks.items()))
    *_, last = figures["models"]
    for way, found in figures.get("batch_check", {}).items():
        said.append(
            f"{last}, {way.replace('-', ' ')}: {found['answers_changed']} of {found['questions']} answers and "
            f"{found['trajectories_changed']} whole trajectories are others than in the evaluation"
        )
    return said
