from typing import Any

import pytest

from tasks.agent.episode import Budget
from tasks.agent.protocol import SearchR1
from tasks.retrieval import Hit, Passage


class Characters:
    """A tokenizer with one token a character."""

    eos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids, skip_special_tokens: bool = False) -> str:
        return "".join(chr(token) for token in token_ids)

    def apply_chat_template(self, conversation, **kwargs) -> list[int]:
        return self.encode("".join(message["content"] for message in conversation))


class Library:
    """A search that answers by title; another query finds the passages that hold it, in their order."""

    def __init__(self, *passages: Passage) -> None:
        self._passages = passages

    async def search(self, query: str) -> list[Hit]:
        titled = [passage for passage in self._passages if passage.title == query]
        found = titled or [passage for passage in self._passages if query.lower() in passage.text.lower()]
        return [Hit(passage, 1.0) for passage in found]


@pytest.fixture(scope="session")
def playing() -> dict[str, Any]:
    """What an episode is played with: a library of four passages, a tokenizer, the protocol and budgets."""
    library = Library(
        Passage("1", "Ada", "Ada works for Firm."),
        Passage("2", "Firm", "Firm is based in the Big Town, by the sea."),
        Passage("3", "Tall", "word " * 100 + "Answer"),
        Passage("4", "<search> odd", "An odd title."),
    )
    budget = Budget(max_turns=4, max_response_tokens=600, max_turn_tokens=100, max_observation_tokens=150)
    return {"tools": library, "tokenizer": Characters(), "protocol": SearchR1(), "budget": budget}
