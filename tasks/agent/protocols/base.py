"""What a protocol is: how a turn asks for tools or answers, and how the system's words are set into the episode.

A protocol is stateless and knows neither model nor tokenizer; `tasks.agent.chat` sets what it says into the
model's chat template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from typing import Protocol as Interface

from tasks.agent.protocols.failures import told
from tasks.agent.toolbox.base import Result


@dataclass(frozen=True)
class Call:
    """One tool call of a turn.

    Attributes:
        tool: the tool's name as the policy wrote it; there may be no such tool.
        text: what stood between the tool's tags, for the tool's own `parse`; tag protocols only.
        arguments: arguments by name; tool-call protocols only.
    """

    tool: str
    text: str = ""
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Action:
    """What a turn asks for: tool calls, an answer with its text, or nothing valid (`text` then says why)."""

    kind: Literal["calls", "answer", "invalid"]
    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Fact:
    """A line of the running fact list: what was learnt, and the numbers of the passages that say so."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """What the system says between two turns.

    Attributes:
        bodies: foreign text, neutralised; each may be cut to a token budget. One a tool call that was run, and one
            for all that were not.
        role: message role that the chat template frames each body with; None: written straight into the
            assistant's turn, between `opening` and `closing`.
        opening: before the body, never cut; only without a role.
        closing: after the body, never cut; only without a role.
        notice: the system's own words after all of it, never cut.
        passage_ids: the passages that the bodies hold, where they have been fitted into a budget (`fitting.shown`).
    """

    bodies: tuple[str, ...]
    role: Literal["tool", "user"] | None = None
    opening: str = ""
    closing: str = ""
    notice: str = ""
    passage_ids: tuple[str, ...] = ()


class Protocol(Interface):
    """One way of asking for tools and answering.

    Attributes:
        name: as in `episode.protocol`.
        tools: names of the tools that may be called.
        calls_tools_by_schema: whether the tools' JSON schemas are given to the chat template.
        stop: strings at which generation hands over to the system; they are kept in the output.
        tokens: marks for a tokenizer that gives each an id of its own.
        ends_turn: whether the end token closes every turn, also one that goes on.
        cites: whether answers name the passages that they rest on.
    """

    @property
    def name(self) -> str: ...
    @property
    def tools(self) -> tuple[str, ...]: ...
    @property
    def calls_tools_by_schema(self) -> bool: ...
    @property
    def ends_turn(self) -> bool: ...
    @property
    def cites(self) -> bool: ...
    @property
    def stop(self) -> list[str]: ...
    @property
    def tokens(self) -> list[str]: ...

    def action(self, turn: str) -> Action:
        """Read one generated turn, end token excluded."""
        ...

    def answers(self, generated: str) -> list[str]:
        """Texts of all answer blocks of a generated turn, in order; the episode's answer is the last of all."""
        ...

    def citations(self, answer: str) -> tuple[str, tuple[int, ...]]:
        """An answer block's text without its citations, and the numbers of the passages that it cites."""
        ...

    def facts(self, generated: str) -> list[Fact]:
        """What a generated turn adds to the running fact list; nothing where the protocol has none."""
        ...

    def numbered(self, shown: str) -> set[int]:
        """Numbers of the passages that an observation's text holds; none where passages have no lasting numbers."""
        ...

    def show(self, results: Sequence[Result], numbers: dict[str, int], notice: str = "") -> Observation:
        """What the results of one turn's calls look like.

        Args:
            results: one a call; those of calls that were too many come last.
            numbers: number by passage id, of all passages shown so far in the episode; extended.
            notice: the system's own words after them.
        """
        ...

    def say(self, text: str, role: Literal["notice", "user"]) -> Observation:
        """A word of the system (`notice`) or of the user, where no result is shown."""
        ...

    def neutralise(self, text: str) -> str:
        """Make a foreign text unable to open or close a block of the protocol or of the chat template."""
        ...

    def call(self, call: Call, thought: str | None = None) -> str:
        """Text of a turn that makes this call, without end token."""
        ...

    def search(self, query: str, thought: str | None = None) -> str:
        """Text of a turn that searches, without end token."""
        ...

    def answer(self, answer: str, thought: str | None = None, sources: Sequence[int] = ()) -> str:
        """Text of a turn that answers, without end token."""
        ...

    def fact(self, text: str, sources: Sequence[int]) -> str:
        """A line of the fact list, to stand before a turn's text; empty where the protocol has none."""
        ...

    @property
    def correction(self) -> str:
        """What the system says to a turn that asked for nothing valid."""
        ...

    @property
    def last_turn(self) -> str:
        """What the system says before the turn that must answer."""
        ...


@dataclass(frozen=True)
class Tags:
    """What the protocols share: results as text, thoughts, and the neutralising of foreign text.

    Attributes:
        tools: names of the tools that may be called.
        tags: names of all tags of the protocol.
    """

    tools: tuple[str, ...] = ("search",)
    tags: tuple[str, ...] = field(default=())
    cites: bool = field(init=False, default=False)

    def neutralise(self, text: str) -> str:
        """Make a foreign text unable to open or close a block: `<` of any tag of the protocol becomes `‹`.

        So does that of chat marks such as `<|im_end|>`, which a tokenizer would read as its own.
        """
        names = "|".join(map(re.escape, self.tags))
        return re.sub(rf"<(?=\s*(?:/\s*)?(?:{names})\b|\|)", "‹", text, flags=re.IGNORECASE)

    def citations(self, answer: str) -> tuple[str, tuple[int, ...]]:
        """The answer as it is: only a protocol with cited answers has citations."""
        return answer, ()

    def facts(self, generated: str) -> list[Fact]:
        """Nothing: only a protocol with cited answers keeps a fact list."""
        return []

    def body(self, result: Result, numbers: dict[str, int]) -> str:
        """One result's text: why it failed, its passages with their labels, or what it says."""
        if result.failure is not None:
            return told(result.failure, self.tools)
        if not result.passages:
            return self.neutralise(result.text)
        return "".join(
            f"{self.label(rank, passage.id, numbers)} "
            f"(Title: {self.neutralise(passage.title)}) {self.neutralise(passage.text)}\n"
            for rank, passage in enumerate(result.passages, start=1)
        )

    def label(self, rank: int, passage_id: str, numbers: dict[str, int]) -> str:
        """What a passage is called; passages are counted anew in each result."""
        return f"Doc {rank}"

    def numbered(self, shown: str) -> set[int]:
        """None: only a protocol with cited answers numbers passages over the whole episode."""
        return set()

    def fact(self, text: str, sources: Sequence[int]) -> str:
        """Nothing: only a protocol with cited answers keeps a fact list."""
        return ""

    @property
    def last_turn(self) -> str:
        """What the system says before the turn that must answer."""
        return "No call is left. Answer now, inside <answer> </answer>."

    def think(self, thought: str | None) -> str:
        """The thought that opens a turn, or nothing."""
        return f"<think> {thought} </think>\n" if thought is not None else ""
