"""Questions as comma-separated, or otherwise separated, values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import StringConstraints

from tasks.qa.reading import Row, RowError, fields, nested, tables
from tasks.qa.records import Question
from tasks.qa.sources import mapped

_SHOWN = 60
# Digits: far from the thousands that Python doesn't read. pandas writes 2.0 where another row has no number.
_WHOLE = re.compile(r"([0-9]{1,100})(\.0*)?")


class CsvKeys(mapped.MappedKeys):
    """Keys of a question set as separated values."""

    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] | None = None


class Source(mapped.MappedSource):
    """A first line of column names, then a question a line.

    A cell in square brackets is a list, as JSON or Python write it; any other cell of answers is one answer. An empty
    cell is no value.
    """

    reader = "csv"
    Keys = CsvKeys
    required = ("id", "question", "golden_answers")
    endings = (".csv", ".tsv")
    lone = True

    def file_rows(self) -> Iterator[Row]:
        usual = "\t" if self.ending() == ".tsv" else ","
        return tables.separated(self.path, self.keys.delimiter or usual, self.chosen)

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question]:
        columns = self.keys.columns
        needed = (columns.id, columns.question, columns.golden_answers)
        filled = {name: value if value or name in needed else None for name, value in row.items()}
        return super().parse(filled, number, origin)

    def answers(self, value: Any, key: str) -> tuple[str, ...]:
        return super().answers(_listed(value, key), key)

    def texts(self, value: Any, key: str) -> tuple[str, ...]:
        return super().texts(_list(value, key), key)

    def ids(self, value: Any, key: str) -> tuple[str, ...]:
        return super().ids(_list(value, key), key)

    def hops(self, value: Any, key: str) -> int:
        found = _WHOLE.fullmatch(value.strip())
        if found is None:
            raise RowError("wrong_type", f"{key}: must be a whole number of hops, got {value.strip()[:_SHOWN]!r}")
        return fields.hops(int(found[1]), key)


def _listed(value: str, key: str) -> Any:
    """A list where a cell is in square brackets, else the cell."""
    stripped = value.strip()
    return nested.decoded(stripped, key) if stripped.startswith("[") and stripped.endswith("]") else stripped


def _list(value: str | None, key: str) -> Any:
    if not value:
        return None
    listed = _listed(value, key)
    return [listed] if isinstance(listed, str) else listed
