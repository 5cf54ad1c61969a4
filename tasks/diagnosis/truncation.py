"""Truncation: episodes that a budget ends or cuts before they could be right."""

from __future__ import annotations

import pandas as pd

from tasks.agent import protocols
from tasks.agent.rewards.answers import YES_NO, normalise
from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.retrieval import ENOUGH, READABLE, full_observations
from tasks.diagnosis.run_data import GENERATED, RunData, in_hops, late

CUT = 0.1  # share of the episodes that a budget ends; more bend what is learnt (DAPO, Yu et al. 2025, section 3.4)
CUT_LATER = 0.2  # the same of the second half: a policy that learns to search more runs out of turns now and then
FILLED = 0.95  # of episode.max_response_tokens: an answer takes more than what is left
NO_ROOM = 0.5  # share of the episodes that search as often as they must and fill the response
ONE_CALL = ("search-r1", "research")  # protocols in which a turn makes one call
REASONS = {
    "length": "raise episode.max_response_tokens or episode.max_turn_tokens, whichever the rollouts fill",
    "turns": "raise episode.max_turns, or set episode.force_answer: true",
    "deadline": "raise rl.deadline_seconds, or find out which tool is slow (tool_latencies in the rollout log)",
}
ROOM_MEND = "raise episode.max_response_tokens: it holds what is generated and what is shown of all turns together"
OBSERVATION_MEND = "raise episode.max_observation_tokens and episode.max_response_tokens, or lower retrieval.topk"


def truncation(data: RunData) -> Finding:
    """How episodes end, whether the turns suffice for the hops, and whether what was found was also shown."""
    look = Look("truncation", "Truncation")
    _turns_for_hops(look, data)
    frame = data.episodes
    if frame is None:
        look.lacking(data.why("rollouts"))
        return look.finding()
    part = late(frame, data.trained)
    for reason, mend in REASONS.items():
        ended = frame[frame["stop_reason"] == reason]
        babble = ended[~_under_way(ended, data)] if reason == "length" else ended.head(0)
        cut = ended.drop(babble.index)
        share, later = len(cut) / len(frame), float(part.index.isin(cut.index).mean())
        text = f"{share:.1%} of the episodes ended by {reason}, {later:.1%} in the second half of the steps"
        if len(babble):
            text += f"; {len(babble) / len(frame):.1%} more wrote on without asking for anything, which no budget mends"
        look.judge(later > (CUT if share > CUT else CUT_LATER), text, mend, _examples(cut))
    _room(look, data, frame)
    _observations(look, data, frame)
    _prompts(look, data, frame)
    cuts = frame["stop_reason"].isin(REASONS).groupby(frame["step"]).mean()
    look.plot = Plot(
        "share of the episodes that a budget ended", {"cut": [(int(s), float(v)) for s, v in cuts.items()]}
    )
    return look.finding()


def _turns_for_hops(look: Look, data: RunData) -> None:
    turns, protocol = data.param("episode.max_turns"), data.param("episode.protocol")
    frame = data.rows if data.rows is not None else data.rollouts
    if turns is None or frame is None or protocol not in ONE_CALL:
        return
    needed = int(frame["hops"].max()) + 1
    look.judge(
        turns < needed,
        f"episode.max_turns is {turns}; {needed - 1} searches one after the other and an answer take {needed}",
        f"set episode.max_turns: {needed} or more",
    )


def _under_way(ended: pd.DataFrame, data: RunData) -> pd.Series:
    """Whether an episode was doing something when it was cut: it had called a tool, or a block was open."""
    protocol = protocols.create(data.param("episode.protocol", "search-r1"), data.param("tools.names", ["search"]))
    closings = [mark for mark in (*protocol.tokens, *protocol.stop, "</think>") if mark.startswith("</")]
    pairs = {(closing.replace("</", "<", 1), closing) for closing in closings}

    def under_way(asked: list, parts: list[dict]) -> bool:
        last = next((part["text"] for part in reversed(parts) if part["kind"] == GENERATED), "")
        return bool(asked) or any(last.count(opening) > last.count(closing) for opening, closing in pairs)

    return pd.Series(
        [under_way(*pair) for pair in zip(ended["asked"], ended["parts"], strict=True)], ended.index, dtype=bool
    )


def _room(look: Look, data: RunData, frame: pd.DataFrame) -> None:
    """Of each number of hops, the episodes that search so often: whether the response has room for it.

    Budgets that just suffice cut the last observation or the answer, and hardly any episode ends by length.
    """
    limit = data.param("episode.max_response_tokens")
    if limit is None:
        return
    filled = frame["response_mask"].map(len) >= FILLED * limit
    for hops in sorted(frame["hops"].unique()):
        able = (frame["hops"] == hops) & (frame["searches"] >= hops)
        if able.sum() >= ENOUGH:
            share = filled[able].mean()
            text = f"{share:.0%} of {able.sum():,} episodes of {in_hops(hops)} that search as often fill {limit} tokens"
            look.judge(share > NO_ROOM, text, ROOM_MEND, _examples(frame[able & filled]))


def _observations(look: Look, data: RunData, frame: pd.DataFrame) -> None:
    """Where all gold passages were found: whether the answer was among what of them was shown."""
    whole = frame[frame["all_gold"].eq(True)]
    whole = whole[[not YES_NO & {*map(normalise, golden)} for golden in whole["golden_answers"]]]
    if len(whole) < ENOUGH:
        look.missing(f"whether passages were cut: {len(whole)} episodes found all gold passages, too few to tell")
        return
    share = 1 - whole["answer_shown"].mean()
    look.judge(
        share > 1 - READABLE and full_observations(whole, data),
        f"{share:.0%} of {len(whole):,} episodes that found all gold passages were not shown a golden answer",
        OBSERVATION_MEND,
        _examples(whole[~whole["answer_shown"]]),
    )


def _prompts(look: Look, data: RunData, frame: pd.DataFrame) -> None:
    limit = data.param("episode.max_prompt_tokens")
    if limit is None:
        return
    long = (frame["prompt_ids"].map(len) > limit).mean()
    look.judge(
        long > 0,
        f"{long:.0%} of the prompts are longer than episode.max_prompt_tokens",
        "raise episode.max_prompt_tokens",
    )


def _examples(frame: pd.DataFrame) -> list[tuple[str, str]]:
    rows = frame.drop_duplicates("question_id").tail(2).itertuples()
    return [(f"step {row.step}, ended by {row.stop_reason}: {row.question}", row.text) for row in rows]
