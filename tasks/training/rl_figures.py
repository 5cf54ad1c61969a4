"""What an RL run as a whole was like, as metrics/rl.json has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tasks.params import Rl

Figures = dict[str, Any]


def validation_figures(rollouts: pd.DataFrame) -> Figures:
    """What each validation showed, by kind of question and of all: `{step: {kind: {em, searches, n}}}`.

    A kind is a data source, those of the generated world without their prefix; fewer hops come first, then the
    kind with more questions.

    Args:
        rollouts: what `RolloutLog.publish` returned; a row an episode.
    """
    frame = rollouts[rollouts["split"] == "validation"]
    frame = frame.assign(kind=frame["data_source"].str.removeprefix("world-"))
    kinds = frame.groupby("kind").agg(hops=("hops", "mean"), n=("em", "size"))
    ordered = kinds.sort_values(["hops", "n"], ascending=[True, False], kind="stable").index

    def means(part: pd.DataFrame) -> Figures:
        return {"em": float(part["em"].mean()), "searches": float(part["searches"].mean()), "n": len(part)}

    found: Figures = {}
    for step, part in frame.groupby("step"):
        of_kind = {kind: part[part["kind"] == kind] for kind in ordered}
        found[str(step)] = {kind: means(rows) for kind, rows in of_kind.items() if len(rows)} | {"all": means(part)}
    return found


def episodes(trained: Sequence[dict[str, Any]], rl: Rl) -> Figures:
    """What the rollouts of all training steps were like: the mean share of groups without signal, and counts.

    The share is None where each question is rolled out once: there are no groups. `generations_per_batch` is how many
    groups were generated for a group trained on, what dynamic sampling or StarPO-S' filter cost; 1 without them.
    """
    data, grouped = [step["data"] for step in trained], rl.samples > 1
    without_signal = [step["episode/groups_without_signal"] for step in data] if grouped else []
    generated = [step["episode/groups/generated"] / rl.prompts for step in data] if grouped else [1.0]
    return {
        "groups_without_signal": sum(without_signal) / len(data) if grouped else None,
        "generations_per_batch": sum(generated) / len(generated),
        **{
            name: int(sum(step[f"episode/{key}"] for step in data))
            for name, key in (
                ("no_loss_on_traj", "no_loss_on_traj"),
                ("tool_failures", "tool_failures/all"),
                ("copied_example", "copied_example"),
            )
        },
    }


def engine_against_actor(trained: Sequence[dict[str, Any]], rl: Rl) -> Figures:
    """Largest differences of single tokens' probabilities and of whole responses' mean log-probabilities.

    None where verl compares nothing: the engine has no probabilities of observations, which may be trained on, and
    where it is bypassed the actor's are not computed before the update.
    """
    bypassed = rl.rollout_correction is not None and rl.rollout_correction.mode == "bypass"
    if bypassed or not rl.mask_observations:
        return {"rollout_prob_diff_max": None, "rollout_logprob_diff_max": None}
    ends = [f"rollout_corr/log_ppl_diff_{end}" for end in ("max", "min")]
    return {
        "rollout_prob_diff_max": max(step["data"]["training/rollout_probs_diff_max"] for step in trained),
        "rollout_logprob_diff_max": max(abs(step["data"][end]) for step in trained for end in ends),
    }
