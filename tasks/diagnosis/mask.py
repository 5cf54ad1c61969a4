"""The mask: tokens that the system showed must not be trained on, neither in RL nor in SFT."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from tasks.diagnosis.finding import Finding, Look
from tasks.diagnosis.run_data import GENERATED, RunData

RL_MEND = "set rl.mask_observations: true; what the system showed is not the policy's doing"
LOG_MEND = "the mask does not follow who wrote the tokens: look at tasks/agent/trajectory.py and what changed it"
SFT_MEND = "make the demonstrations anew (`dvc repro demos`); in your own, give loss to what the policy writes alone"


def mask(data: RunData) -> Finding:
    """`rl.mask_observations`, the rollouts' masks against who wrote each token, and the demonstrations' loss flags."""
    look = Look("mask", "The mask")
    masked = data.param("rl.mask_observations")
    if masked is None:
        look.lacking(f"rl.mask_observations: {data.why('params')}")
    else:
        look.judge(not masked, f"rl.mask_observations is {str(masked).lower()}", RL_MEND)
    _rollouts(look, data)
    _demos(look, data)
    return look.finding()


def wrong_masks(rollouts: pd.DataFrame) -> tuple[int, int, int]:
    """Episodes with a wrong mask, tokens of the system's that have mask 1, tokens of the policy's that have mask 0.

    Args:
        rollouts: `segments`, which count the tokens of each writer, and `response_mask`, which is compared with them.
    """
    episodes = shown = written = 0
    for text, found in zip(rollouts["segments"], rollouts["response_mask"], strict=True):
        parts = json.loads(text)
        right = np.repeat([part["kind"] == GENERATED for part in parts], [part["tokens"] for part in parts]).astype(
            bool
        )
        both = min(len(right), len(found))
        wanted, given = right[:both], np.asarray(found[:both], dtype=bool)
        one, other = int((given & ~wanted).sum()), int((wanted & ~given).sum())
        episodes += bool(one or other or len(right) != len(found))
        shown, written = shown + one, written + other
    return episodes, shown, written


def _rollouts(look: Look, data: RunData) -> None:
    if data.rollouts is None or data.rollouts.empty:
        look.lacking(f"masks of the rollouts: {data.why('rollouts')}")
        return
    episodes, shown, written = wrong_masks(data.rollouts)
    look.judge(
        episodes > 0,
        f"{episodes} of {len(data.rollouts):,} rollouts have a wrong mask: {shown:,} tokens that the system showed "
        f"have mask 1, {written:,} that the policy wrote have 0",
        LOG_MEND,
    )


def _demos(look: Look, data: RunData) -> None:
    if data.demos is None:
        look.missing(f"masks of the demonstrations: {data.why('demos')}")
        return
    segments = [dict(one) for of_demo in data.demos["segments"] for one in of_demo]
    shown = sum(one["loss"] and one["kind"] != GENERATED for one in segments)
    written = sum(not one["loss"] and one["kind"] == GENERATED for one in segments)
    if not segments:
        look.missing("masks of the demonstrations: there are none")
        return
    look.judge(
        shown > 0,
        f"{shown:,} of {len(segments):,} segments of {len(data.demos):,} demonstrations are the system's and have loss",
        SFT_MEND,
    )
    if written and written == sum(one["kind"] == GENERATED for one in segments):
        look.bad("no segment that the policy is to write is trained on", SFT_MEND)
