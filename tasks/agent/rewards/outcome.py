"""What an outcome is worth beside the answer itself: its form, several answers, the three-part score."""

from __future__ import annotations

from typing import NamedTuple

from tasks.agent.rewards.length import length_score


def per_answer(score: float, answer_blocks: int) -> float:
    """A score divided by the number of answer blocks; 0.0 without an answer.

    The division takes the profit out of answering many times until one answer is right. Search-R1 has no such rule;
    verl's `search_r1_like_qa_em` quarters the score of a right answer after more than 10 tags (lines 122-126).
    """
    return score / answer_blocks if answer_blocks else 0.0


def format_score(score: float, step: int | None = None, decay_steps: int | None = None) -> float:
    """What an answer earns for being given, as far as it is not right, in [0, 1].

    (1 - score) * max(0, 1 - step / decay_steps). Without `decay_steps`, or outside of training (step is None), nothing
    decays, so that the validations of a run can be compared with each other.

    Source: Search-R1's `compute_score_em(format_score=...)` (Jin et al. 2025); the decay is linear as in common use.

    Args:
        score: how right the answer is, in [0, 1].
        step: training step, counted from 1.
        decay_steps: from this step on the format earns nothing.
    """
    decay = 1.0 if step is None or decay_steps is None else max(0.0, 1.0 - step / decay_steps)
    return (1.0 - score) * decay


class ThreePart(NamedTuple):
    """The three parts of `three_part`; their sum is in [0, 1]."""

    correct: float
    format: float
    length: float


def three_part(em: float, in_form: bool, tokens: int, max_tokens: int, cache_tokens: int) -> ThreePart:
    """0.7 for a right answer, 0.1 for an episode in form, 0.2 for a right answer that is not too long.

    The score is published without a definition of its length part. Our reading is `length_score`, so that a wrong
    answer earns nothing by being short.

    Args:
        em: 1.0 for an exact match, else 0.0.
        in_form: whether the episode was in form: one answer, no invalid turn.
        tokens: generated tokens of the whole episode.
        max_tokens: as in `soft_overlong`, as is the next.
        cache_tokens: width of the slope.
    """
    return ThreePart(0.7 * em, 0.1 * in_form, 0.2 * em * length_score(tokens, max_tokens, cache_tokens))
