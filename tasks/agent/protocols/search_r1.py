"""Search-R1's text protocol: tags, stop strings, and what a generated turn asks for.

Source: Jin et al., "Search-R1: Training LLMs to Reason and Leverage Search Engines with Reinforcement
Learning" (2025), section 3.2 and table 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tasks.agent.protocols.base import Action, Call, Observation, Tags
from tasks.agent.toolbox.base import Result


@dataclass(frozen=True)
class SearchR1(Tags):
    """`<think> </think>`, `<search> </search>`, `<information> </information>`, `<answer> </answer>`.

    Every other tool has tags of its name as well, and its result comes inside `<information>` too.
    """

    name: str = "search-r1"
    tools: tuple[str, ...] = ("search",)
    tags: tuple[str, ...] = field(init=False)
    calls_tools_by_schema: bool = False
    ends_turn: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", ("think", *self.tools, "information", "answer"))

    @property
    def tokens(self) -> list[str]:
        """Opening and closing tags, for a tokenizer that gives each an id of its own."""
        return [mark for tag in self.tags for mark in (f"<{tag}>", f"</{tag}>")]

    @property
    def stop(self) -> list[str]:
        """Strings at which generation hands over to the system."""
        return [*(f"</{tool}>" for tool in self.tools), "</answer>"]

    @cached_property
    def _block(self) -> re.Pattern[str]:
        # A block holds no other tag of its kind, so nested, repeated or crossed tags never make one: a turn's action
        # and the scored answers are read alike, and no block reaches from one turn into the next.
        names = "|".join(map(re.escape, (*self.tools, "answer")))
        return re.compile(rf"<({names})>((?:(?!</?(?:{names})>).)*)</\1>", re.DOTALL)

    @cached_property
    def _last(self) -> re.Pattern[str]:
        return re.compile(rf"{self._block.pattern}\s*\Z", re.DOTALL)

    def action(self, turn: str) -> Action:
        """Read one generated turn; it is valid when it *ends* with a tool's or an answer's block."""
        found = self._last.search(turn)
        if found is None:
            return Action("invalid", "no block at the end")
        kind, text = found.group(1), found.group(2).strip()
        if kind == "answer":
            return Action("answer", text)
        # Empty or not: a tool may take no argument, and one that needs some says so.
        return Action("calls", calls=(Call(kind, text),))

    def answers(self, generated: str) -> list[str]:
        """Texts of all answer blocks of a *generated* text, in order; the answer is the last."""
        return [text.strip() for kind, text in self._block.findall(generated) if kind == "answer"]

    def show(self, results: Sequence[Result], numbers: dict[str, int], notice: str = "") -> Observation:
        """The results inside `<information>`, straight in the assistant's turn."""
        body = "".join(self.body(result, numbers) for result in results)
        return Observation(
            (f" {body}",), opening="\n<information>", closing="</information>\n", notice=f"{notice}\n" * bool(notice)
        )

    def say(self, text: str, role: Literal["notice", "user"]) -> Observation:
        """A notice stands in the assistant's turn as Search-R1's own correction does; a user's word is a message."""
        if role == "user":
            return Observation((self.neutralise(text),), role="user")
        return Observation((), notice=f"\n{text}\n")

    def call(self, call: Call, thought: str | None = None) -> str:
        """Text of a turn that makes this call."""
        return f"{self.think(thought)}<{call.tool}> {call.text} </{call.tool}>"

    def search(self, query: str, thought: str | None = None) -> str:
        """Text of a turn that searches."""
        return self.call(Call("search", query), thought)

    def answer(self, answer: str, thought: str | None = None, sources: Sequence[int] = ()) -> str:
        """Text of a turn that answers."""
        return f"{self.think(thought)}<answer> {answer} </answer>"

    @property
    def correction(self) -> str:
        """What the system says to a turn that asked for nothing valid."""
        asks = ", ".join(f"<{tool}> ... </{tool}>" for tool in self.tools)
        return f"That asked for nothing. End a turn with {asks} or with <answer> ... </answer>."
