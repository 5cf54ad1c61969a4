"""The generated world of `tasks/qa/world.py` as a source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from tasks.qa.records import Item
from tasks.qa.sources import base
from tasks.sections import Share, SplitCounts


class WorldKeys(base.Keys):
    """How many people and questions each split has, and the share of each kind of question."""

    people: SplitCounts
    questions: SplitCounts
    kinds: Annotated[dict[Literal["one-hop", "two-hop", "comparison"], Share], Field(min_length=1)]


class Source(base.Source):
    """People, cities, firms and countries, with questions for all three splits."""

    reader = "world"
    Keys = WorldKeys
    licence = "Apache-2.0"
    upstream = "generated, tasks/qa/world.py"
    brings = "questions"

    def items(self) -> Iterator[Item]:
        from tasks.qa import world

        keys = self.keys
        made = world.generate(self.context.seed, keys.people.by_split(), keys.questions.by_split(), keys.kinds)
        yield from made.passages
        for split, questions in made.questions.items():
            for question in questions:
                yield replace(question, split=split)

    def provenance(self) -> dict[str, Any]:
        return {
            **self.keys.model_dump(),
            "seed": self.context.seed,
            "licence": self.licence,
            "upstream": self.upstream,
        }
