"""Question answering by search: Search-R1's outcome reward, success is exact match."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tasks.agent import rewards
from tasks.agent.protocol import SearchR1
from tasks.agent.trajectory import Trajectory


class SearchParams(BaseModel):
    """Parameters of the search environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    em_score: Annotated[float, Field(gt=0)]
    format_score: Annotated[float, Field(ge=0)]


class Tools:
    """Search in process: the retriever answers at once, so nothing is awaited."""

    def __init__(self, retriever: Any, topk: int) -> None:
        self._retriever, self._topk = retriever, topk

    async def search(self, query: str) -> list[Any]:
        """The best passages for a query, best first."""
        return self._retriever.search([query], self._topk)[0]


class Environment:
    """See the interface in `tasks/agent/environments/__init__.py`."""

    name = "search"
    needs_retrieval = True
    Params = SearchParams

    def __init__(self, params: SearchParams) -> None:
        self.params = params

    def prompt(self, question: str, template: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": template.replace("{question}", question.strip())}]

    def ground_truth(self, question: dict[str, Any]) -> dict[str, list[str]]:
        return {"target": list(question["golden_answers"])}

    def open_tools(self, index: Path, retrieval: Any) -> Tools:
        from tasks.retrieval import load

        return Tools(load(index, retrieval), retrieval.topk)

    def score(self, trajectory: Trajectory, row: dict[str, Any], protocol: SearchR1) -> None:
        golden = list(row["reward_model"]["ground_truth"]["target"])
        blocks = protocol.answers(trajectory.generated)
        answer = blocks[-1] if blocks else None
        trajectory.em = rewards.exact_match(answer, golden)
        trajectory.f1 = rewards.f1(answer, golden)
        trajectory.success = trajectory.em
        trajectory.format_valid = trajectory.stop_reason == "answer" and len(blocks) == 1
        trajectory.reward_parts = rewards.outcome_reward(
            trajectory.em, len(blocks), em_score=self.params.em_score, format_score=self.params.format_score
        )
        trajectory.reward = sum(trajectory.reward_parts.values())
