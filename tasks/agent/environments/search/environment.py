"""Question answering by search: the reward is put together from the table of rewards, success is exact match.

What an exact match is, the scorer says that a row's ground truth names; a row that names none is judged as SQuAD's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.agent import rewards
from tasks.agent.environments.search.turns import turn_rewards
from tasks.agent.trajectory import Trajectory
from tasks.sections import Section

if TYPE_CHECKING:
    from tasks.agent.prompts import Template


class SearchParams(Section):
    """Parameters of the search environment."""

    reward: rewards.RewardParams


class Environment:
    """See the interface in `tasks/agent/environments/__init__.py`."""

    name = "search"
    needs_retrieval = True
    Params = SearchParams

    def __init__(self, params: SearchParams) -> None:
        self.params = params

    def prompt(self, question: str, template: Template) -> list[dict[str, str]]:
        return template.messages(question)

    def ground_truth(self, question: dict[str, Any]) -> dict[str, Any]:
        return {"target": list(question["golden_answers"]), "scorer": question["scorer"]}

    def score(self, trajectory: Trajectory, row: dict[str, Any]) -> None:
        golden, exact = list(row["reward_model"]["ground_truth"]["target"]), rewards.scorer_of(row)
        answer, blocks = trajectory.answer, trajectory.answer_blocks
        trajectory.em = exact(answer, golden)
        trajectory.f1 = rewards.f1(answer, golden)
        trajectory.success = trajectory.em
        trajectory.format_valid = trajectory.stop_reason == "answer" and blocks == 1 and not trajectory.invalid_turns
        trajectory.reward_parts = rewards.reward_parts(self.params.reward, trajectory, golden, exact)
        trajectory.reward = sum(trajectory.reward_parts.values())

    def turn_rewards(self, trajectory: Trajectory, row: dict[str, Any]) -> list[float]:
        return turn_rewards(trajectory, row["extra_info"].get("gold_passage_ids"))
