"""Groups without variance: GRPO learns from differences within the rollouts of one question, and there are none."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from tasks.agent.rewards.groups import group_signal
from tasks.diagnosis.finding import Finding, Look, Plot, Points
from tasks.diagnosis.run_data import RunData, early
from tasks.diagnosis.statistics import bounds

# Share of groups without signal from which on a run mostly computes for nothing: the field's checklist asks for more
# than half of the groups to be effective (the gate's preset `production`; DAPO, Yu et al. 2025, samples until all are).
MOST = 0.5
SATURATED = 0.95  # success of the first validation, on what RL plays, from which on there is nothing left to learn
QUESTIONS = 8  # of a validation, below which that is not said
Kind = Literal["all right", "all in form only", "all wrong", "equal though some are right"]
KINDS: dict[Kind, str] = {
    "all right": (
        "the questions are too easy for this policy: bring harder ones (more hops: ingest.mixture), or take out those "
        "that it always answers"
    ),
    "all in form only": (
        "no rollout is right: warm the policy up on demonstrations that are (demos, sft.max_steps), begin with easier "
        "questions, or raise rl.samples; RL only finds what is sampled now and then"
    ),
    "all wrong": (
        "no rollout is even in form: warm the policy up (sft.max_steps above 0), look at the budgets of episode, and "
        "see what the rollouts say"
    ),
    "equal though some are right": "the reward does not tell right from wrong: see environment.reward",
}


def groups(data: RunData) -> Finding:
    """How many groups have equal rewards, by kind, over the run and in its first half.

    Both must be too many: a policy that has learnt its questions has groups that are all right in the end, and one that
    breaks has groups that are all wrong.
    """
    look = Look("groups", "Groups without variance")
    if data.rollouts is None or data.rollouts.empty:
        look.lacking(data.why("rollouts"))
        return look.finding()
    table = table_of(data.rollouts)
    if table.empty:
        look.missing("no question was played more than once in a step")
        return look.finding()
    first = early(table, data.trained)
    flat, flat_first = table["kind"].notna(), first["kind"].notna()
    counts = table["kind"].value_counts()
    listed = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if kind in counts) or "none"
    low, low_first = (bounds(int(part.sum()), len(part))[0] for part in (flat, flat_first))
    text = f"{flat.mean():.0%} of {len(table)} groups have equal rewards ({listed})"
    text += f"; in the first half {flat_first.mean():.0%}"
    if low > MOST and low_first > MOST:
        main = [kind for kind in KINDS if kind in counts and counts[kind] >= 0.25 * flat.sum()]
        for kind in main:
            examples = table[table["kind"] == kind].head(2)
            look.bad(
                f"{counts[kind]} of {len(table)} groups are {kind}; {text}"
                if kind == main[0]
                else f"{counts[kind]} are {kind}",
                KINDS[kind],
                [(f"{kind}: {row.question}, rewards {row.rewards}", row.text) for row in examples.itertuples()],
            )
    else:
        look.good(f"{text}; more than {MOST:.0%} would be too many")
    _saturated(look, data)
    lines: dict[str, Points] = {
        kind: [
            (int(step), float(share)) for step, share in (table["kind"] == kind).groupby(table["step"]).mean().items()
        ]
        for kind in KINDS
        if kind in counts
    }
    look.plot = Plot("share of the groups with equal rewards, by kind", lines) if lines else None
    return look.finding()


def _saturated(look: Look, data: RunData) -> None:
    """Whether the policy was right before the first step, greedily; sampled, it may still differ within a group."""
    if data.validations is None or data.rollouts is None:
        return
    first = data.validations[data.validations["step"] == data.validations["step"].min()]
    played = first[first["data_source"].isin(data.rollouts["data_source"].unique())]
    if played["step"].min() >= data.trained[0] or len(played) < QUESTIONS:
        return
    success = played["success"].mean()
    text = f"of what RL plays, {success:.0%} of the validation's questions were right before the first step"
    look.judge(success >= SATURATED, text, KINDS["all right"])


def table_of(rollouts: pd.DataFrame) -> pd.DataFrame:
    """A row a group of two or more: `step, question_id, kind` (None with signal), and an example's text."""
    rows = []
    for (step, question), group in rollouts.dropna(subset="reward").groupby(["step", "question_id"]):
        if len(group) > 1:
            rewards = [float(reward) for reward in group["reward"]]
            first = group.iloc[0]
            kind = None if group_signal(rewards).informative else _kind(group)
            shown = ", ".join(f"{reward:g}" for reward in sorted(set(rewards)))
            rows.append((step, question, kind, first["question"], shown, first["text"], first["data_source"]))
    return pd.DataFrame(rows, columns=["step", "question_id", "kind", "question", "rewards", "text", "data_source"])


def _kind(group: pd.DataFrame) -> Kind:
    right = group["success"] >= 1
    if right.all():
        return "all right"
    if right.any():
        return "equal though some are right"
    return "all in form only" if (group["format_valid"] | group["answer"].notna()).any() else "all wrong"
