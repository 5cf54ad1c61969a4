"""What a step's episodes were like, as figures beside verl's own."""

from __future__ import annotations

import json
from collections import Counter
from typing import get_args

import pandas as pd

from tasks.agent.rewards.groups import groups_without_signal
from tasks.agent.toolbox.base import Failure
from tasks.agent.trajectory import CallRecord, StopReason

COLUMNS = (
    "question_id", "reward", "stop_reason", "no_loss", "calls", "searches", "answer", "copied_example",
    "invalid_turns", "user_failures", "forced_answer", "reward_parts", "citation_precision", "citation_recall",
    "generated_tokens",
)  # fmt: skip
COPIED_SHARE = 0.05  # of the answers: from here on the policy copies the prompt's example
NO_SIGNAL_SHARE = 0.9  # of the groups: from here on a step teaches next to nothing


def episode_figures(frame: pd.DataFrame) -> dict[str, float]:
    """Figures of one step's rollouts.

    Args:
        frame: the columns `COLUMNS` of the trajectory contract, a row an episode; n >= 1 rows.

    Returns:
        by name: shares of episodes (`stop/REASON`, `forced_answer`) or of groups (`groups_without_signal`); counts
        (`no_loss_on_traj`, `tool_failures/KIND`, `answers`, `copied_example`); means of an episode (the others).
    """
    calls = [[CallRecord(**call) for call in json.loads(one)] for one in frame["calls"]]
    failed = [call.failure for made in calls for call in made]
    failures = Counter(failure for failure in failed if failure in get_args(Failure))
    parts = pd.DataFrame([json.loads(one) for one in frame["reward_parts"]], dtype=float)
    rewards = {question: list(group) for question, group in frame.groupby("question_id")["reward"]}
    figures = {
        **{f"stop/{reason}": (frame["stop_reason"] == reason).mean() for reason in get_args(StopReason)},
        "no_loss_on_traj": frame["no_loss"].sum(),
        "tool_calls": sum(map(len, calls)) / len(calls),
        "repeated_calls": sum(len(made) - len({call.key for call in made}) for made in calls) / len(calls),
        "tool_failures/all": failures.total(),
        **{f"tool_failures/{kind}": failures[kind] for kind in get_args(Failure)},
        "searches": frame["searches"].mean(),
        "answers": frame["answer"].notna().sum(),
        "copied_example": frame["copied_example"].sum(),
        "invalid_turns": frame["invalid_turns"].mean(),
        "user_failures": frame["user_failures"].sum(),
        "forced_answer": frame["forced_answer"].mean(),
        "generated_tokens/mean": frame["generated_tokens"].mean(),
        "generated_tokens/max": frame["generated_tokens"].max(),
        # An episode without a part has no share in it: one that the deadline cut has the part `fallback` alone.
        **{f"reward/{name}": parts[name].fillna(0.0).mean() for name in parts},
    }
    if any(len(group) > 1 for group in rewards.values()):  # a validation plays each question once
        figures["groups_without_signal"] = groups_without_signal(rewards)
    for name in ("citation_precision", "citation_recall"):
        known = frame[name].dropna()
        if len(known):
            figures[name] = known.mean()
    return {name: float(value) for name, value in figures.items()}


class Alarms:
    """What a user should hear of while it happens, from the figures of each step.

    An alarm is raised when its share passes its bound, and again when it has doubled.
    """

    def __init__(self, example: str | None) -> None:
        """Take the answer that the prompt gives as an example."""
        self._example = example
        self._told = 0.0
        self._flat = False

    def of(self, figures: dict[str, float]) -> list[str]:
        """Lines about one training step; `figures` are named as `RolloutLog.figures` names them."""
        lines = []
        answers, copied = figures.get("episode/answers", 0.0), figures.get("episode/copied_example", 0.0)
        share = copied / answers if answers else 0.0
        if share > max(COPIED_SHARE, 2 * self._told):
            self._told = share
            lines.append(
                f"ALARM: {copied:.0f} of {answers:.0f} answers ({share:.0%}) are the prompt's own example, "
                f"{self._example!r}: the policy copies it; set episode.example_answer to null"
            )
        flat = figures.get("episode/groups_without_signal", 0.0)
        if flat > NO_SIGNAL_SHARE and not self._flat:
            lines.append(
                f"ALARM: in {flat:.0%} of the groups all rewards are equal, so that they teach nothing: the questions "
                f"are too hard or too easy for the policy, or the reward is too coarse"
            )
        self._flat = flat > NO_SIGNAL_SHARE
        return lines
