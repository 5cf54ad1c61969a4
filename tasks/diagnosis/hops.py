"""Success by hop: a number of hops that is never solved while another is, which a mean over all questions hides."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import RunData, early, in_hops, late
from tasks.diagnosis.statistics import change

STUCK = 0.1  # success at or below which a number of hops counts as unsolved
SOLVED = 0.5  # success from which on another counts as solved, so that protocol, budgets and reward do work
GAIN = 0.1  # what counts as having moved; half of it is none
STEPS = 4  # training steps between two validations, before which a greedy policy need not have moved
ROWS = 8  # episodes, or questions of a validation, below which nothing is said
MEND = (
    "look at these questions' rollouts. Where they search less often than they have hops, give demonstrations of that "
    "kind (demos.hop_weights, demos.give_up) and more of them in RL (ingest.mixture.hops). Where searches cannot find "
    "the passages, see the cause `retrieval`. Where they are found and the answer is wrong, warm up with the very "
    "observations that RL shows (`dvc repro demos sft` after a change of retrieval or episode)"
)
UNSEEN = "RL never sees such questions: bring them in with ingest.mixture.hops, and look at ingest.shuffle"


def hops(data: RunData) -> Finding:
    """Success by number of hops in the rollouts, and in the first and the last validation."""
    look = Look("hops", "Success by hop")
    if data.rollouts is None or data.rollouts.empty:
        look.lacking(data.why("rollouts"))
        return look.finding()
    frame = data.rollouts
    names = sorted(
        {int(one) for part in (frame, data.validations) if part is not None for one in part["hops"].unique()}
    )
    if len(names) < 2:
        look.missing(f"all questions have {in_hops(names[0])}: there is nothing to compare")
        return look.finding()
    sampled = {hop: _sampled(frame[frame["hops"] == hop], data) for hop in names}
    greedy = {hop: _greedy(data, hop) for hop in names}
    # Like with like: rollouts that are all wrong stand for no number of hops, whatever the validations say.
    others = _some_work(sampled.values()), _some_work(greedy.values())
    for hop in names:
        _judge(look, hop, sampled[hop], greedy[hop], others, data)
    lines = {in_hops(hop): _points(frame[frame["hops"] == hop]) for hop in names}
    look.plot = Plot(
        "success of the rollouts by number of hops", {name: points for name, points in lines.items() if points}
    )
    return look.finding()


# Number of episodes or questions, success at first, success at last; nan where there is none.
_Course = tuple[int, float, float]


def _some_work(courses: Iterable[_Course]) -> bool:
    """Whether some number of hops is solved, or has moved."""
    known = [(first, last) for _, first, last in courses if not math.isnan(last - first)]
    return any(max(pair) >= SOLVED or pair[1] - pair[0] >= GAIN for pair in known)


def _sampled(frame: pd.DataFrame, data: RunData) -> _Course:
    if frame.empty:
        return 0, math.nan, math.nan
    before, after = early(frame, data.trained), late(frame, data.trained)
    return len(frame), float(before["success"].mean()), float(after["success"].mean())


def _greedy(data: RunData, hop: int) -> _Course:
    """The first and the last validation, if training lies between them."""
    if data.validations is None or data.validations.empty:
        return 0, math.nan, math.nan
    frame = data.validations[data.validations["hops"] == hop]
    steps = sorted(frame["step"].unique())
    if len(steps) < 2:
        return 0, math.nan, math.nan
    first, last = (frame[frame["step"] == step]["success"] for step in (steps[0], steps[-1]))
    return len(last), float(first.mean()), float(last.mean())


def _judge(look: Look, hop: int, sampled: _Course, greedy: _Course, others: tuple[bool, bool], data: RunData) -> None:
    name = f"{hop}-hop questions"
    episodes, first, last = sampled
    questions, before, after = greedy
    told = f"{name}: {_course(first, last)} in the rollouts, {_course(before, after)} in the validations"
    if not episodes:
        unsolved = questions >= ROWS and after <= STUCK and any(others)
        look.judge(unsolved, f"{told}; RL played none of them", UNSEEN)
        return
    frame = data.rollouts[data.rollouts["hops"] == hop]  # type: ignore[index]
    rise, errors = change(early(frame, data.trained), late(frame, data.trained), "success")
    never = others[0] and episodes >= ROWS and max(first, last) <= STUCK and not rise > GAIN / 2
    steps = len(data.trained)
    flat = (
        others[1]
        and steps >= STEPS
        and questions >= ROWS
        and after <= STUCK
        and after - before < GAIN / 2
        and not errors > 2
    )
    if episodes < ROWS and not questions:
        look.missing(f"{told}: too few to tell")
        return
    searches = frame["searches"].mean()
    look.judge(
        never or flat,
        f"{told}; {searches:.1f} searches a question{_read(data, hop)}",
        MEND,
        _examples(frame) if never or flat else (),
    )


def _read(data: RunData, hop: int) -> str:
    """How far these questions come: all gold passages found, and then answered."""
    frame = data.episodes
    known = frame[(frame["hops"] == hop) & frame["all_gold"].notna()] if frame is not None else None
    if known is None or known.empty:
        return ""
    whole = known[known["all_gold"].eq(True)]
    right = f", of which {whole['right'].mean():.0%} are right" if len(whole) else ""
    return f"; {len(whole) / len(known):.0%} of the episodes find all gold passages{right}"


def _course(first: float, last: float) -> str:
    return "none" if math.isnan(last) else f"success {first:.2f}, later {last:.2f}"


def _points(frame: pd.DataFrame) -> list[tuple[int, float]]:
    return [(int(step), float(value)) for step, value in frame.groupby("step")["success"].mean().items()]


def _examples(frame: pd.DataFrame) -> list[tuple[str, str]]:
    wrong = frame[frame["success"] < 1].drop_duplicates("question_id").tail(2)
    return [
        (f"step {row.step}: {row.question} (golden: {', '.join(map(str, row.golden_answers))})", row.text)
        for row in wrong.itertuples()
    ]
