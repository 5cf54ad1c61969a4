"""The episodes that docs/protocols.md shows are what the protocols really write."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.protocols import PROTOCOLS, create
from tasks.agent.toolbox import Context, Limits, Passage, Result, State, Tool, Toolbox
from tasks.agent.trajectory import Trajectory

PAGE = Path(__file__).parents[3] / "docs" / "protocols.md"
KASHI, FENOR = Passage("p1", "Kashi", "Kashi works for Fenor."), Passage("p2", "Fenor", "Fenor is a firm in Rove.")
FOUND = {"Kashi": (KASHI,), "Fenor": (FENOR, KASHI), "firms in Rove": (FENOR,)}


class Query(BaseModel):
    query: str


class Search(Tool):
    name = "search"
    description = "looks passages up"
    Arguments = Query

    def call(self, arguments: Query, state: State) -> Result:
        return Result(passages=FOUND[arguments.query])


class Unscored:
    name = "search"

    def score(self, trajectory: Trajectory, row: dict[str, Any]) -> None:
        """What the examples are worth does not matter here."""


def turns(name: str) -> list[str]:
    """What the policy writes in the example."""
    protocol = create(name, ("search",))
    fact = protocol.fact
    if protocol.calls_tools_by_schema:
        both = f"{protocol.search('Kashi', 'Two things to look up.')}\n{protocol.search('firms in Rove')}"
        return [both, protocol.answer("Rove", "He works for Fenor, which is in Rove.")]
    return [
        protocol.search("Kashi", "Who employs him?"),
        fact("Kashi works for Fenor.", [1]) + protocol.search("Fenor", "Where is Fenor?"),
        fact("Fenor is in Rove.", [2]) + protocol.answer("Rove", sources=[1, 2]),
    ]


def example(name: str, tokenizer: Any, row: dict[str, Any]) -> Trajectory:
    protocol, said = create(name, ("search",)), turns(name)
    end = [tokenizer.eos_token_id] if protocol.ends_turn else []

    async def generate(prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        return Generation([*tokenizer.encode(said.pop(0), add_special_tokens=False), *end], None)

    setup = Setup(
        protocol=protocol,
        environment=Unscored(),
        tools=Toolbox({"search": Search(Context())}, Limits(seconds=30, parallel=2)),
        chat=Chat(tokenizer),
        budget=Budget(max_turns=4, max_response_tokens=2000, max_turn_tokens=500, max_observation_tokens=500),
    )
    return asyncio.run(run_episode(row, generate=generate, setup=setup))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_example_is_a_whole_episode(name: str, qwen_tokenizer, question_row) -> None:
    row = question_row("Which city is Kashi's employer in?", ["Rove"], ["Kashi", "Fenor"], ["p1", "p2"])
    trajectory = example(name, qwen_tokenizer, row)
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
    (shown,) = re.findall(r"```text\n(.*?)\n```", section, re.DOTALL)
    assert shown == trajectory.text.strip("\n")
    assert (trajectory.answer, trajectory.stop_reason) == ("Rove", "answer")
    if name == "research":
        assert trajectory.cited == ["p1", "p2"] and len(trajectory.facts) == 2
        assert (trajectory.citation_precision, trajectory.citation_recall) == (1.0, 1.0)
