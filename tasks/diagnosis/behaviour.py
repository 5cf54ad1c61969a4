"""Causes that the rollouts show plainly: no form, broken tools, a reward that pays for something else."""

from __future__ import annotations

import math
from collections import Counter

from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import GENERATED, RunData, early, late
from tasks.diagnosis.statistics import change

IN_FORM = 0.5  # share of the episodes below which the policy does not know the protocol
RISE = 0.1  # of that share, by which it is on its way
OWN_RESULTS = 0.1  # share of the episodes in which the policy writes a result by itself
FAILED = 0.05  # share of the calls that fail by the tool's fault
TOOL_FAULTS = frozenset({"timeout", "raised", "unavailable", "worker", "result", "state"})
WRONG_PAY = 0.5  # mean reward of a wrong answer over a right one's; format rewards of the field are 0.1 to 0.2
ENOUGH = 8  # episodes of either kind
WARM_UP = (
    "warm the policy up until it is in form: sft.max_steps above 0, more demonstrations (demos.questions), and see "
    "data/sft/samples.parquet"
)
OWN_MEND = "stop strings do not end the turn: see the protocol's stop strings, and the mask of the demonstrations"
TOOL_MEND = (
    "look at the tool's server and its log; raise episode.tool_seconds or retrieval.seconds where calls time out"
)
REWARD_MEND = (
    "pay right answers most: environment.reward {em: {weight: 1.0}, format: {weight: 0.1}}, or less; docs/rewards.md "
    "says how each part can be cheated"
)

NAN_MEND = "find the part of environment.reward that is no number (reward_parts in the rollout log), and why"


def form(data: RunData) -> Finding:
    """Whether the policy speaks the protocol."""
    look = Look("format", "A policy that does not know the protocol")
    frame = data.episodes
    if frame is None:
        look.lacking(data.why("rollouts"))
        return look.finding()
    first, last = (
        float(part["format_valid"].mean()) for part in (early(frame, data.trained), late(frame, data.trained))
    )
    stops = ", ".join(f"{count} {reason}" for reason, count in frame["stop_reason"].value_counts().items())
    look.judge(
        last < IN_FORM and last - first < RISE,
        f"{first:.0%} of the episodes are in form, later {last:.0%}; they end by: {stops}",
        WARM_UP,
        [(f"step {row.step}: {row.question}", row.text) for row in frame[~frame["format_valid"]].tail(2).itertuples()],
    )
    own = [_writes_results(parts) for parts in frame["parts"]]
    look.judge(
        sum(own) > OWN_RESULTS * len(own), f"{sum(own)} episodes hold a result that the policy wrote itself", OWN_MEND
    )
    shares = frame["format_valid"].groupby(frame["step"]).mean()
    look.plot = Plot(
        "share of the episodes in form", {"in form": [(int(step), float(value)) for step, value in shares.items()]}
    )
    return look.finding()


def _writes_results(parts: list[dict]) -> bool:
    marks = ("<information>", "<tool_response>")
    return any(mark in part["text"] for part in parts if part["kind"] == GENERATED for mark in marks)


def tools(data: RunData) -> Finding:
    """How many calls fail by the tool's fault."""
    look = Look("tools", "Tools that fail")
    frame = data.episodes
    if frame is None:
        look.lacking(data.why("rollouts"))
        return look.finding()
    calls = [call for asked in frame["asked"] for call in asked]
    if not calls:
        look.missing("no rollout called a tool")
        return look.finding()
    faults = Counter(call["failure"] for call in calls if call["failure"] in TOOL_FAULTS)
    listed = f" ({', '.join(f'{count} {kind}' for kind, count in faults.most_common())})" if faults else ""
    look.judge(
        faults.total() > FAILED * len(calls), f"{faults.total():,} of {len(calls):,} calls fail{listed}", TOOL_MEND
    )
    return look.finding()


def reward(data: RunData) -> Finding:
    """Whether the reward tells right answers from wrong ones, and rises with success."""
    look = Look("reward", "A reward that pays for something else")
    if data.rollouts is None or data.rollouts.empty:
        look.lacking(data.why("rollouts"))
        return look.finding()
    if broken := int(data.rollouts["reward"].isna().sum()):
        look.bad(f"{broken:,} of {len(data.rollouts):,} rewards are no numbers", NAN_MEND)
    frame = data.rollouts.dropna(subset="reward")
    right, wrong = frame[frame["success"] >= 1], frame[(frame["success"] < 1) & frame["answer"].notna()]
    if len(right) < ENOUGH or len(wrong) < ENOUGH:
        look.missing(
            f"what right and wrong answers earn: {len(right)} right, {len(wrong)} wrong ones are too few to tell"
        )
    else:
        paid, unpaid = float(right["reward"].mean()), float(wrong["reward"].mean())
        look.judge(
            unpaid > WRONG_PAY * paid,
            f"a right answer earns {paid:.2f} in the mean, a wrong one {unpaid:.2f}",
            REWARD_MEND,
            [
                (
                    f"step {row.step}, reward {row.reward:g}: {row.question} (golden: {', '.join(row.golden_answers)})",
                    row.text,
                )
                for row in wrong.sort_values("reward").tail(2).itertuples()
            ],
        )
    if len(data.trained) > 1:
        parts = early(frame, data.trained), late(frame, data.trained)
        paid, errors = change(*parts, "reward")
        success, _ = change(*parts, "success")
        if not math.isnan(paid):
            look.judge(
                paid > RISE and errors > 3 and success < RISE / 5,
                f"from the first to the second half reward changes by {paid:+.2f}, success by {success:+.2f}",
                REWARD_MEND,
            )
    means = frame.groupby("step")[["reward", "success"]].mean()
    look.plot = Plot(
        "reward and success of the rollouts",
        {name: [(int(step), float(value)) for step, value in means[name].items()] for name in ("reward", "success")},
        share=False,
    )
    return look.finding()
