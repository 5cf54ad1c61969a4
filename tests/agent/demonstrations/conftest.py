from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.environments.search.environment import Environment, SearchParams
from tasks.agent.episode import Setup
from tasks.agent.protocols import Call, SearchR1
from tasks.agent.toolbox import Passage, Result
from tasks.agent.toolbox.base import Failure


class Characters:
    """A tokenizer with one token a character."""

    eos_token_id, eos_token = 0, "\0"
    added_tokens_decoder: dict[int, Any] = {}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids, skip_special_tokens: bool = False) -> str:
        return "".join(chr(token) for token in token_ids)

    def apply_chat_template(self, conversation, **kwargs) -> list[int]:
        return self.encode("".join(message["content"] for message in conversation))


FAILURES: dict[str, Failure] = {
    "Broken": "raised",
    "Blank": "arguments",
    "Spent": "spent",
    "Away": "unavailable",
    "Dead": "worker",
    "Slow": "timeout",
}


class Library:
    """A search that answers by title; another query finds the passages that hold it, in their order."""

    names = ("search",)
    schemas: list[dict[str, Any]] = []

    def __init__(self, *passages: Passage) -> None:
        self._passages = passages
        self.open: set[str] = set()

    async def call(self, trajectory_id: str, calls: Sequence[Call]) -> list[Result]:
        self.open.add(trajectory_id)
        return [self._search(call.text or call.arguments["query"]) for call in calls]

    async def release(self, trajectory_id: str) -> None:
        self.open.discard(trajectory_id)

    def _search(self, query: str) -> Result:
        if query in FAILURES:
            return Result(failure=FAILURES[query])
        titled = [passage for passage in self._passages if passage.title == query]
        found = titled or [passage for passage in self._passages if query.lower() in passage.text.lower()]
        return Result("" if found else "No results.", tuple(found))


@pytest.fixture(scope="session")
def make_setup() -> Callable[..., Setup]:
    """What an episode is played with: a library, of four passages unless it is given some, budgets by name."""

    def make(*passages: Passage, **budget: Any) -> Setup:
        standing = (
            Passage("1", "Ada", "Ada works for Firm."),
            Passage("2", "Firm", "Firm is based in the Big Town, by the sea."),
            Passage("3", "Tall", "word " * 100 + "Answer"),
            Passage("4", "<search> odd", "An odd title."),
        )
        limits = {"max_turns": 4, "max_response_tokens": 600, "max_turn_tokens": 100, "max_observation_tokens": 150}
        environment = Environment(SearchParams(reward={"em": {"weight": 1.0}, "format": {"weight": 0.1}}))
        return Setup(
            SearchR1(),
            environment,
            Library(*(passages or standing)),
            Chat(Characters()),
            Budget(**{**limits, **budget}),
        )

    return make


@pytest.fixture(scope="session")
def setup(make_setup) -> Setup:
    """Such a setup with the budgets that tests share."""
    return make_setup()
