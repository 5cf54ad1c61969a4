"""Search-R1's text protocol: tags, stop strings, and what a generated turn asks for.

Source: Jin et al., "Search-R1: Training LLMs to Reason and Leverage Search Engines with Reinforcement
Learning" (2025), section 3.2 and table 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from typing import Protocol as Interface

# A block holds no other tag of its kind, so nested, repeated or crossed tags never make one: a turn's action and the
# scored answers are read alike, and no block reaches from one turn into the next.
_BLOCK = r"<(search|answer)>((?:(?!</?(?:search|answer)>).)*)</\1>"


class Passage(Interface):
    """What an observation shows of a passage."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Action:
    """What a turn asks for: a search with its query, an answer with its text, or nothing valid."""

    kind: Literal["search", "answer", "invalid"]
    text: str = ""


@dataclass(frozen=True)
class SearchR1:
    """`<think> </think>`, `<search> </search>`, `<information> </information>`, `<answer> </answer>`."""

    name: str = "search-r1"
    tags: tuple[str, ...] = ("think", "search", "information", "answer")

    @property
    def tokens(self) -> list[str]:
        """Opening and closing tags, for a tokenizer that gives each an id of its own."""
        return [mark for tag in self.tags for mark in (f"<{tag}>", f"</{tag}>")]

    @property
    def stop(self) -> list[str]:
        """Strings at which generation hands over to the system."""
        return ["</search>", "</answer>"]

    def action(self, turn: str) -> Action:
        """Read one generated turn; it is valid when it *ends* with a search or an answer block."""
        found = re.search(rf"{_BLOCK}\s*\Z", turn, re.DOTALL)
        if found is None:
            return Action("invalid")
        text = found.group(2).strip()
        if found.group(1) == "search":
            return Action("search", text) if text else Action("invalid")
        return Action("answer", text)

    def neutralise(self, text: str) -> str:
        """Make a foreign text unable to open or close a block: `<` of any tag of the protocol becomes `‹`.

        So does that of chat marks such as `<|im_end|>`, which a tokenizer would read as its own.
        """
        names = "|".join(self.tags)
        return re.sub(rf"<(?=\s*/?\s*(?:{names})\b|\|)", "‹", text, flags=re.IGNORECASE)

    def observation(self, passages: Sequence[Passage]) -> tuple[str, str, str]:
        """Opening, body and closing of what the system shows; the body alone may be cut to a token budget."""
        body = "".join(
            f"Doc {rank} (Title: {self.neutralise(passage.title)}) {self.neutralise(passage.text)}\n"
            for rank, passage in enumerate(passages, start=1)
        )
        return "\n<information>", f" {body or 'No results.'}", "</information>\n"

    def search(self, query: str, thought: str | None = None) -> str:
        """Text of a turn that searches."""
        return f"{self._think(thought)}<search> {query} </search>"

    def answer(self, answer: str, thought: str | None = None) -> str:
        """Text of a turn that answers."""
        return f"{self._think(thought)}<answer> {answer} </answer>"

    def _think(self, thought: str | None) -> str:
        return f"<think> {thought} </think>\n" if thought is not None else ""

    def answers(self, generated: str) -> list[str]:
        """Texts of all answer blocks of a *generated* text, in order; the answer is the last."""
        return [text.strip() for kind, text in re.findall(_BLOCK, generated, re.DOTALL) if kind == "answer"]


PROTOCOLS = {"search-r1": SearchR1()}
