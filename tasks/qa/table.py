"""Questions as columns in a memory-mapped Arrow file: what a laptop's memory can't hold as objects, its disk can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.qa.comparing import question_key
from tasks.qa.records import Question

ROWS = 8192  # of a batch, and of a row group of parquet
_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("split", pa.string()),
        ("id", pa.string()),
        ("data_source", pa.string()),
        ("question", pa.string()),
        ("golden_answers", _TEXTS),
        ("hops", pa.int64()),
        ("supporting_titles", _TEXTS),
        ("gold_passage_ids", _TEXTS),
        ("origin", pa.string()),
        ("type", pa.string()),
        ("scorer", pa.string()),
        ("key", pa.binary(16)),
    ]
)
_COPIED = [name for name in SCHEMA.names if name not in ("source", "key")]


class Spool:
    """Takes questions one by one and keeps a batch of them in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, SCHEMA)
        self._columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}

    def add(self, source: str, question: Question) -> None:
        """Append a question of a source."""
        columns = self._columns
        columns["source"].append(source)
        columns["key"].append(question_key(question.question))
        for name in _COPIED:
            columns[name].append(getattr(question, name))
        if len(columns["key"]) == ROWS:
            self._flush()

    def _flush(self) -> None:
        arrays = [pa.array(self._columns[field.name], field.type) for field in SCHEMA]
        self._writer.write_batch(pa.record_batch(arrays, SCHEMA))
        for values in self._columns.values():
            values.clear()

    def table(self) -> pa.Table:
        """End the file and map it: the questions in their order, columns as in `SCHEMA`."""
        if self._columns["key"]:
            self._flush()
        self._writer.close()
        self._sink.close()
        return pa.ipc.open_file(pa.memory_map(str(self._path))).read_all()


def keys(table: pa.Table) -> np.ndarray:
    """Column `key` as an array of shape (rows, 2) of 64-bit integers."""
    parts = [
        np.frombuffer(chunk.buffers()[1], np.int64).reshape(-1, 2)[chunk.offset :][: len(chunk)]
        for chunk in table["key"].chunks
    ]
    return np.concatenate(parts) if parts else np.empty((0, 2), np.int64)


def rows_of(table: pa.Table, numbers: np.ndarray) -> Iterator[pa.Table]:
    """The named rows in their order, `ROWS` at a time."""
    for start in range(0, len(numbers), ROWS):
        yield table.take(pa.array(numbers[start : start + ROWS]))
