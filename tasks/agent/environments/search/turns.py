"""What a turn was worth by itself: what its searches showed for the first time."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.agent.rewards import YES_NO, holds_answer, normalise
from tasks.agent.trajectory import Trajectory


def turn_rewards(trajectory: Trajectory, gold_passage_ids: Iterable[object] | None) -> list[float]:
    """What each turn's calls showed that no earlier turn's did, shape (turns,), each in [0, 1].

    Where gold passages are known: the share of them that the turn's observation holds for the first time, so that the
    turns of an episode earn 1 together at most. Otherwise 1 for the first turn whose observation holds a golden answer
    as whole words, in SQuAD's normal form; yes and no are no answers that a passage could hold. Passages that the
    observation's budget has cut away were not shown.

    Source: the retrieval reward of MT-GRPO (Zeng et al. 2025, arXiv 2505.11821) looks for the answer in what a search
    brought; gold passages are ours, since on the way to an answer of several hops it stands in the last one alone.

    Args:
        trajectory: a finished one.
        gold_passage_ids: of the question's row; None or none where they are not known.
    """
    gold = set() if gold_passage_ids is None else set(map(str, gold_passage_ids))
    missing = set(gold)
    golden = [answer for answer in trajectory.golden_answers if normalise(answer) not in YES_NO]
    answered = False
    found: list[float] = []
    for segment in trajectory.segments:
        if segment.kind == "generated":
            found.append(0.0)
        elif segment.kind == "observation" and gold:
            new = missing.intersection(segment.passage_ids)
            missing -= new
            found[-1] += len(new) / len(gold)
        elif segment.kind == "observation" and not answered:
            seen = normalise(segment.text)
            answered = any(holds_answer(seen, answer) for answer in golden)
            found[-1] += float(answered)
    return found
