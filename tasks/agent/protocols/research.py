"""The research protocol: Search-R1's tags, a running fact list with its sources, and answers that name theirs.

Passages are numbered over the whole episode, so that a number means the same passage wherever it stands:
`<fact> Kashi was born in Rove. [1] </fact>` and `<answer> Rove [1][4] </answer>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tasks.agent.protocols.base import Action, Fact
from tasks.agent.protocols.search_r1 import SearchR1

_DIGITS = re.compile(r"[0-9]+")
_CITATION = re.compile(r"\s*\](\s*[0-9]{1,6}\s*(?:,\s*[0-9]{1,6}\s*)*)\[")  # backwards
_NUMBERED = re.compile(r"\[([0-9]+)\] \(Title:")
_BRACKETED = re.compile(r"\[(\s*\d[\d\s,]*)\]")


@dataclass(frozen=True)
class Research(SearchR1):
    """Search-R1's tags and `<fact> text [n] </fact>`; passages are shown as `[n] (Title: title) text`."""

    name: str = "research"
    cites: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", ("think", *self.tools, "information", "fact", "answer"))

    @cached_property
    def _fact(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, (*self.tools, "fact", "answer")))
        return re.compile(rf"<fact>((?:(?!</?(?:{names})>).)*)</fact>", re.DOTALL)

    def action(self, turn: str) -> Action:
        """Read one generated turn as Search-R1 does; an answer's text comes without its citations."""
        action = super().action(turn)
        return Action("answer", self.citations(action.text)[0]) if action.kind == "answer" else action

    def citations(self, answer: str) -> tuple[str, tuple[int, ...]]:
        """An answer block's text without the numbers at its end, and these numbers, each once.

        `[1][4]`, `[1] [4]` and `[1, 4]` are read alike.
        """
        # Read from the end: an answer full of brackets costs no more than its length.
        backwards, end, numbers = answer.strip()[::-1], 0, list[int]()
        while found := _CITATION.match(backwards, end):
            numbers += [int(digits[::-1]) for digits in _DIGITS.findall(found[1])]
            end = found.end()
        return backwards[end:][::-1].strip(), tuple(dict.fromkeys(reversed(numbers)))

    def facts(self, generated: str) -> list[Fact]:
        """The fact list of a *generated* text, in order; a fact may name no source."""
        return [Fact(*self.citations(text)) for text in self._fact.findall(generated)]

    def numbered(self, shown: str) -> set[int]:
        """Numbers of the passages that an observation's text holds; no foreign text can write one."""
        return {int(number) for number in _NUMBERED.findall(shown)}

    def neutralise(self, text: str) -> str:
        """Search-R1's neutralising; a number in brackets becomes one in parentheses.

        Otherwise a passage could show a second `[1]`, and take or give away a citation that is another's.
        """
        return _BRACKETED.sub(r"(\1)", super().neutralise(text))

    def label(self, rank: int, passage_id: str, numbers: dict[str, int]) -> str:
        """What a passage is called; one that was shown before keeps its number."""
        return f"[{numbers.setdefault(passage_id, len(numbers) + 1)}]"

    def answer(self, answer: str, thought: str | None = None, sources: Sequence[int] = ()) -> str:
        """Text of a turn that answers, with the numbers of its passages."""
        return super().answer(_cite(answer, sources), thought)

    def fact(self, text: str, sources: Sequence[int]) -> str:
        """A line of the fact list, to stand before a turn's text."""
        return f"<fact> {_cite(text, sources)} </fact>\n"

    @property
    def last_turn(self) -> str:
        """What the system says before the turn that must answer."""
        return f"{super().last_turn} Name your sources, as in [1][2]."


def _cite(text: str, sources: Sequence[int]) -> str:
    return f"{text} {''.join(f'[{number}]' for number in sources)}".rstrip()
