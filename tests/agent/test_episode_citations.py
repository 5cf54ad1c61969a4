"""Episodes whose answers cite passages."""

import asyncio
from collections.abc import Sequence

import pytest

from tasks.agent import environments
from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.episode import Setup, run_episode
from tasks.agent.protocols import create
from tasks.agent.toolbox import Passage
from tasks.agent.trajectory import Trajectory

SHOWN = [Passage("p1", "Kashi", "Kashi was born in Rove."), Passage("p2", "Rove", "Rove is a city. " * 20)]


@pytest.fixture
def research(tokenizer, defaults, question_row, script, library):
    def run(*turns: str, gold: Sequence[str] = ("p1", "p2"), seen: int = 200) -> Trajectory:
        row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], list(gold))
        budget = Budget(4, 1000, 80, seen)
        protocol = create("research", ["search"])
        setup = Setup(protocol, environments.create(defaults.environment), library(*SHOWN), Chat(tokenizer), budget)
        generate = script(*turns, stop=protocol.stop)
        return asyncio.run(run_episode(row, generate=generate, setup=setup))

    return run


@pytest.mark.parametrize(
    ("cited", "ids", "precision", "recall"),
    [
        ("[1][2]", ["p1", "p2"], 1.0, 1.0),
        ("[2]", ["p2"], 1.0, 0.5),
        ("[1][7][8]", ["p1", None, None], 1 / 3, 0.5),  # numbers that were never shown are wrong, each of them
        ("[1][1]", ["p1"], 1.0, 0.5),
        ("", [], None, 0.0),
    ],
)
def test_a_cited_answer_is_held_against_the_gold_passages(research, cited, ids, precision, recall) -> None:
    trajectory = research("<search> a </search>", f"<fact> born there [1] </fact>\n<answer> Rove {cited} </answer>")
    assert (trajectory.answer, trajectory.reward) == ("Rove", 1.0)
    assert (trajectory.cited, trajectory.citation_precision, trajectory.citation_recall) == (ids, precision, recall)
    assert trajectory.facts == [{"text": "born there", "sources": ["p1"]}]


def test_a_passage_that_the_budget_has_cut_away_cannot_be_cited(research) -> None:
    trajectory = research("<search> a </search>", "<answer> Rove [1][2] </answer>", seen=30)
    assert "[1] (Title: Kashi)" in trajectory.text and "[2] (Title" not in trajectory.text
    assert (trajectory.cited, trajectory.citation_precision, trajectory.citation_recall) == (["p1", None], 0.5, 0.5)


def test_without_gold_passages_citations_cannot_be_judged(research) -> None:
    trajectory = research("<search> a </search>", "<answer> Rove [1] </answer>", gold=())
    assert (trajectory.citation_precision, trajectory.citation_recall) == (None, None)
