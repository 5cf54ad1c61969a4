"""What a step's episodes were like, as figures beside verl's own."""

from __future__ import annotations

import json
from collections import Counter
from statistics import fmean
from typing import get_args

import numpy as np
import pandas as pd

from tasks.agent.rewards.groups import groups_without_signal
from tasks.agent.toolbox.base import Failure
from tasks.agent.trajectory import CallRecord, StopReason

_MEANS = (
    "success", "em", "format_valid", "no_loss", "searches", "turns", "invalid_turns", "forced_answer",
)  # fmt: skip
_COUNTS = {"no_loss_on_traj": "no_loss", "copied_example": "copied_example", "user_failures": "user_failures"}
_CITATIONS = ("citation_precision", "citation_recall")
COLUMNS = (
    *_MEANS, *_CITATIONS, "copied_example", "user_failures", "question_id", "reward", "reward_parts", "turn_rewards",
    "stop_reason", "answer", "calls", "generated_tokens", "response_mask", "response_logprobs",
)  # fmt: skip


def episode_figures(frame: pd.DataFrame) -> dict[str, float]:
    """Figures of one step's rollouts, among them those that dynamic sampling has thrown away; docs/metrics.md.

    Args:
        frame: the columns `COLUMNS` of the trajectory contract, a row an episode; n >= 1 rows.

    Returns:
        by name: shares of episodes (`success`, `stop/REASON`) or of groups (`groups_without_signal`, `groups/mixed`);
        counts (`no_loss_on_traj`, `tool_failures/KIND`, `answers`, `copied_example`, `groups/generated`); means of an
        episode, of a call (`tool_seconds`) or of a token (`logprob`). A figure of nothing, such as the seconds of calls
        where none was made, is left out.
    """
    figures = {
        **{name: frame[name].mean() for name in _MEANS},
        **{name: frame[column].sum() for name, column in _COUNTS.items()},
        "score": frame["reward"].mean(),
        "valid_trajectories": (frame["invalid_turns"] == 0).mean(),
        "answers": frame["answer"].notna().sum(),
        **{f"stop/{reason}": (frame["stop_reason"] == reason).mean() for reason in get_args(StopReason)},
        "turn_rewards": sum(map(sum, frame["turn_rewards"])) / len(frame),
        **_calls(frame),
        **_tokens(frame),
        **_parts(frame),
        **_groups(frame),
        **{name: known.mean() for name in _CITATIONS if len(known := frame[name].dropna())},
    }
    return {name: float(value) for name, value in figures.items()}


def _calls(frame: pd.DataFrame) -> dict[str, float]:
    """How many calls of tools there were, how many failed, and how long those took that were run."""
    calls = [[CallRecord(**call) for call in json.loads(one)] for one in frame["calls"]]
    made = [call for episode in calls for call in episode]
    failures = Counter(call.failure for call in made if call.failure in get_args(Failure))
    seconds = [call.seconds for call in made if call.failure != "repeated"]
    return {
        "tool_calls": len(made) / len(calls),
        "repeated_calls": sum(len(episode) - len({call.key for call in episode}) for episode in calls) / len(calls),
        "tool_failures/all": failures.total(),
        **{f"tool_failures/{kind}": failures[kind] for kind in get_args(Failure)},
        **(
            {"tool_seconds/mean": fmean(seconds), "tool_seconds/p95": float(np.quantile(seconds, 0.95))}
            if seconds
            else {}
        ),
    }


def _tokens(frame: pd.DataFrame) -> dict[str, float]:
    """Lengths in tokens, written, shown and both; and how sure the engine was of what the policy wrote."""
    written = frame["generated_tokens"]
    total = frame["response_mask"].map(len)
    figures = {
        "generated_tokens/mean": written.mean(),
        "generated_tokens/max": written.max(),
        "generated_tokens/sum": written.sum(),
        "shown_tokens/mean": (total - written).mean(),
        "response_tokens/mean": total.mean(),
        "response_tokens/max": total.max(),
    }
    mask = np.concatenate([*frame["response_mask"], []]).astype(bool)
    logprobs = np.concatenate([*frame["response_logprobs"], []])[mask]
    success = np.repeat(frame["success"].to_numpy(), written)
    for name, chosen in (("mean", success >= 0), ("right", success == 1), ("wrong", success == 0)):
        if chosen.any():
            figures[f"logprob/{name}"] = logprobs[chosen].mean()
    return figures


def _parts(frame: pd.DataFrame) -> dict[str, float]:
    """The reward's parts; one that an episode lacks is 0 there: what the deadline cut has the part `fallback` alone."""
    parts = pd.DataFrame([json.loads(one) for one in frame["reward_parts"]], dtype=float)
    return {f"reward/{name}": parts[name].fillna(0.0).mean() for name in parts}


def _groups(frame: pd.DataFrame) -> dict[str, float]:
    """What the groups of a step teach; none of a validation, which plays each question once."""
    groups = frame.groupby("question_id")
    if groups.size().max() == 1:
        return {}
    lowest, highest = groups["success"].min(), groups["success"].max()
    equal = lowest == highest
    right, wrong = equal & (lowest == 1), equal & (lowest == 0)
    return {
        "groups_without_signal": groups_without_signal({one: list(group) for one, group in groups["reward"]}),
        "groups/generated": len(equal),
        "groups/mixed": (~equal).mean(),
        "groups/all_right": right.mean(),
        "groups/all_wrong": wrong.mean(),
        "groups/equal_otherwise": (equal & ~right & ~wrong).mean(),
    }
