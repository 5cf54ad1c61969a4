"""From the parameters and a finished trajectory to the parts of its reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import create_model, model_validator

from tasks.agent.rewards.answers import Judge, exact_match
from tasks.agent.rewards.outcome import per_answer
from tasks.agent.rewards.table import REWARDS, Case
from tasks.sections import Section

if TYPE_CHECKING:
    from tasks.agent.trajectory import Trajectory

_FIELDS: dict[str, Any] = {name: (entry.params | None, None) for name, entry in REWARDS.items()}
_Parts = create_model("_Parts", __base__=Section, **_FIELDS)  # the table is the one list of parts


class RewardParams(_Parts):
    """`environment.reward`: the parameters of each part; None leaves it out."""

    @model_validator(mode="after")
    def _pays_right_answers(self) -> RewardParams:
        paying = [name for name, entry in REWARDS.items() if entry.answer]
        if all(getattr(self, name) is None for name in paying):
            raise ValueError(f"nothing pays a right answer: give one of {', '.join(paying)} a weight")
        return self


def reward_parts(
    params: RewardParams, trajectory: Trajectory, golden: Sequence[str], exact: Judge = exact_match
) -> dict[str, float]:
    """Every part of a trajectory's reward by name, weighted; the reward is their sum.

    The names are the same for every trajectory, whatever happened in it.

    Args:
        params: what counts.
        trajectory: a finished one; answer, form and citations are filled in.
        golden: golden answers.
        exact: what an exact match is.
    """
    chosen = {name: part for name in REWARDS if (part := getattr(params, name)) is not None}
    case = Case(trajectory, golden, exact)
    case = replace(case, right=max(judge(case) for name in chosen if (judge := REWARDS[name].answer)))
    parts: dict[str, float] = {}
    for name, part in chosen.items():
        entry = REWARDS[name]
        score = entry.score(case, part)
        own = score if isinstance(score, Mapping) else {"": score}
        for key, value in own.items():
            weighted = part.weight * value
            parts[f"{name}_{key}" if key else name] = (
                per_answer(weighted, trajectory.answer_blocks) if entry.kind == "outcome" else weighted
            )
    return parts
