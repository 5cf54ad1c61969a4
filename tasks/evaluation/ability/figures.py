"""Figures of a multiple-choice set: each model's accuracy, and what the trained one has lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.evaluation.ability.questions import Choices
from tasks.evaluation.ability.scoring import likelihoods
from tasks.evaluation.intervals import mcnemar, rate_difference, rate_interval


def measure(
    models: Mapping[str, Path], questions: Sequence[Choices], *, confidence: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Put the questions to the models before and after training.

    Args:
        models: folder by name, at least two; the first and the last are asked, before training and after it.
        questions: at least one.
        confidence: level of the intervals, in (0, 1).
        say: takes a line of progress.

    Returns:
        `{"n", "models": {MODEL: {"accuracy", "accuracy_norm": {"mean", "low", "high"}}}, "drop", "drop_low",
        "drop_high", "drop_p"}`; the drop is of the accuracy, before minus after, on the same questions
    """
    right = {}
    before, after = (list(models)[number] for number in (0, -1))
    found: dict[str, Any] = {"n": len(questions), "models": {}}
    for name in (before, after):
        scores = likelihoods(models[name], questions)
        right[name] = correct(questions, scores)
        accuracies = {"accuracy": right[name], "accuracy_norm": correct(questions, scores, norm=True)}
        found["models"][name] = {key: rate_interval(of, confidence).plain() for key, of in accuracies.items()}
        say(f"ability: {name}: {right[name].mean():.3f} of {len(questions):,} multiple-choice questions right")
    drop = rate_difference(right[before] - right[after], confidence)
    return found | {
        "drop": drop.mean,
        "drop_low": drop.low,
        "drop_high": drop.high,
        "drop_p": mcnemar(right[before], right[after]),
    }


def correct(questions: Sequence[Choices], scores: Sequence[Sequence[float]], *, norm: bool = False) -> np.ndarray:
    """Whether the likeliest choice is the right one: zeros and ones, shape (n,).

    lm-evaluation-harness's `acc`; `norm`: its `acc_norm`, where the log-probability is divided by the number of
    characters of the choice. The first of equally likely choices counts.
    """
    lengths = [[len(choice) if norm else 1 for choice in one.choices] for one in questions]
    return np.array(
        [
            float(np.argmax(np.array(of) / np.array(length)) == one.answer)
            for one, of, length in zip(questions, scores, lengths, strict=True)
        ]
    )
