"""What a searcher notes down: a sentence of each passage that matters, with its source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tasks.agent.demonstrations.script import Script
from tasks.agent.protocols import Protocol
from tasks.agent.rewards import holds_answer, normalise
from tasks.agent.toolbox import Passage

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Notes:
    """The facts of one demonstration, in a protocol with a fact list; in any other there are none.

    Attributes:
        sources: numbers of the passages that were noted, in order: what the answer rests on.
    """

    def __init__(self, protocol: Protocol, info: Mapping[str, Any]) -> None:
        gold = {str(key) for key in info["gold_passage_ids"] or ()}
        self._protocol = protocol
        self._ids, self._titles = gold, set() if gold else set(info["supporting_titles"])
        self.sources: list[int] = []

    def take(self, script: Script, wanted: Collection[str]) -> str:
        """Lines for what was shown last, to stand before the next turn's text.

        A sentence is noted as it was shown; a passage whose sentence was cut away is no source.

        Args:
            script: the demonstration so far.
            wanted: what is searched or answered next; a sentence with one of these goes before a passage's first.
        """
        lines = []
        for passage in self._relevant(script.found, wanted):
            number, text = script.numbers.get(passage.id), self._protocol.neutralise(_sentence(passage.text, wanted))
            if number is not None and number not in self.sources and text and text in script.shown[-1]:
                self.sources.append(number)
                lines.append(self._protocol.fact(text, [number]))
        return "".join(lines)

    def _relevant(self, found: Sequence[Passage], wanted: Collection[str]) -> list[Passage]:
        """The gold passages; where there is none, the first that says what is wanted."""
        gold = [passage for passage in found if passage.id in self._ids or passage.title in self._titles]
        return gold or [passage for passage in found if _says(passage.text, wanted)][:1]


def _sentence(text: str, wanted: Collection[str]) -> str:
    sentences = _SENTENCE.split(text.strip())
    return next((one for one in sentences if _says(one, wanted)), sentences[0])


def _says(text: str, wanted: Iterable[str]) -> bool:
    return any(holds_answer(normalise(text), one) for one in wanted)
