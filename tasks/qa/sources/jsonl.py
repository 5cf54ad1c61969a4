"""Unified rows, one JSON object a line; `columns` maps keys of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from tasks.qa.reading import Row
from tasks.qa.reading.json_text import Layout
from tasks.qa.sources import mapped
from tasks.qa.sources.base import Context


class Source(mapped.MappedSource):
    """One JSON object a line, whatever the file is called; a mapped answer may be a text."""

    reader = "jsonl"
    required = ("id", "question", "golden_answers")
    endings = (".jsonl",)
    layouts: ClassVar[tuple[Layout, ...]] = ("lines",)

    def __init__(self, keys: Any, context: Context) -> None:
        super().__init__(keys, context)
        self.lone = "golden_answers" in keys.columns.model_fields_set

    def file_rows(self) -> Iterator[Row]:
        return self.json_rows()
