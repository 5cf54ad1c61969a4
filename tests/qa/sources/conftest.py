from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tasks.qa.corpus import Corpus
from tasks.qa.records import Fault, Passage, Question
from tasks.qa.sources import registry, source_keys
from tasks.qa.sources.base import Context, Source


@dataclass
class Read:
    """What a source gave."""

    source: Source
    items: list[Any]

    @property
    def questions(self) -> list[Question]:
        return [item for item in self.items if isinstance(item, Question)]

    @property
    def passages(self) -> list[Passage]:
        return [item for item in self.items if isinstance(item, Passage)]

    @property
    def faults(self) -> list[Fault]:
        return [item for item in self.items if isinstance(item, Fault)]

    @property
    def question(self) -> Question:
        (only,) = self.questions
        return only

    @property
    def fault(self) -> Fault:
        (only,) = self.items
        assert isinstance(only, Fault)
        return only


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Read]:
    """Reads a path below the test's folder, or an absolute one, with a reader and its keys."""

    def go(reader: str, path: Any, corpus: Corpus | None = None, **keys: Any) -> Read:
        entry = {"reader": reader, "path": str(path), **keys}
        place = "ingest.corpus"
        if reader not in ("passages", "beir"):
            entry = {"name": "mine", "split": "train", **entry}
            place = "ingest.sources.0"
        known: set[str] = set()
        source = registry()[reader](source_keys(entry, place), Context(tmp_path, 1, corpus, known))
        items = []
        for item in source.items():
            items.append(item)
            if isinstance(item, Passage):
                known.add(item.id)
        return Read(source, items)

    return go
