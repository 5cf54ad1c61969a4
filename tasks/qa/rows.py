"""Questions and passages as parquet: verl's row form and the corpus, written a row group at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.agent.environments import Environment
from tasks.agent.prompts import Template
from tasks.errors import InputError
from tasks.qa.records import Passage, Split
from tasks.qa.table import ROWS, rows_of

AGENT = "forager"
ABILITY = "fact-reasoning"

_TEXTS = pa.list_(pa.string())
_CORPUS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string()), ("url", pa.string())])


def schema(ground_truth: pa.DataType) -> pa.Schema:
    """Columns of the rows; the ground truth's form is the environment's."""
    extra_info = pa.struct(
        [
            ("index", pa.int64()),
            ("split", pa.string()),
            ("id", pa.string()),
            ("question", pa.string()),
            ("golden_answers", _TEXTS),
            ("hops", pa.int64()),
            ("type", pa.string()),
            ("supporting_titles", _TEXTS),
            ("gold_passage_ids", _TEXTS),
            ("tools_kwargs", pa.null()),
        ]
    )
    return pa.schema(
        [
            ("data_source", pa.string()),
            ("environment", pa.string()),
            ("agent_name", pa.string()),
            ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", ground_truth)])),
            ("extra_info", extra_info),
        ]
    )


def write_splits(
    folder: Path, table: pa.Table, splits: Mapping[Split, np.ndarray], environment: Environment, template: Template
) -> None:
    """Write `SPLIT.parquet` for every split, all with the same columns, an empty one too.

    Args:
        folder: takes the files.
        table: questions, columns as in `tasks.qa.table.SCHEMA`.
        splits: row numbers of the table for each split, in their order.
        environment: what makes the prompts and the ground truths.
        template: the prompt without its question.
    """
    first = table.slice(0, 1).to_pylist()
    columns = schema(pa.array([environment.ground_truth(one) for one in first]).type)
    for split, numbers in splits.items():
        with pq.ParquetWriter(folder / f"{split}.parquet", columns, compression="zstd") as writer:
            for number, part in enumerate(rows_of(table, numbers)):
                writer.write_table(_rows(part, number * ROWS, split, environment, template, columns))


def _rows(
    part: pa.Table, first: int, split: Split, environment: Environment, template: Template, columns: pa.Schema
) -> pa.Table:
    """Rows of the data contract; `first` is the position in the split of the first of them.

    `tools_kwargs` is null: parquet can't hold an empty structure, and verl reads None as none.
    """
    count = part.num_rows
    questions = part.to_pylist()

    def same(value: str) -> pa.Array:
        return pa.array([value] * count, pa.string())

    def struct(name: str, **values: Any) -> pa.Array:
        fields = list(columns.field(name).type)
        arrays = [values[field.name] for field in fields]
        plain = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in arrays]
        return pa.StructArray.from_arrays(plain, fields=fields)

    truths = [environment.ground_truth(one) for one in questions]
    prompts = [environment.prompt(one["question"], template) for one in questions]
    copied = ("id", "question", "golden_answers", "hops", "type", "supporting_titles", "gold_passage_ids")
    arrays = {
        "data_source": part["data_source"],
        "environment": same(environment.name),
        "agent_name": same(AGENT),
        "prompt": pa.array(prompts, columns.field("prompt").type),
        "ability": same(ABILITY),
        "reward_model": struct(
            "reward_model",
            style=same("rule"),
            ground_truth=pa.array(truths, columns.field("reward_model").type.field("ground_truth").type),
        ),
        "extra_info": struct(
            "extra_info",
            index=pa.array(np.arange(first, first + count)),
            split=same(split),
            tools_kwargs=pa.nulls(count),
            **{name: part[name] for name in copied},
        ),
    }
    return pa.table([arrays[name] for name in columns.names], schema=columns)


class CorpusWriter:
    """Writes passages as columns `id, title, text, url`, each id once.

    Attributes:
        count: passages written.
    """

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, _CORPUS, compression="zstd")
        self._waiting: list[Passage] = []
        self._contents: dict[str, int] = {}
        self.count = 0

    def __contains__(self, identity: object) -> bool:
        return identity in self._contents

    def add(self, passage: Passage, place: str) -> None:
        """Append a passage that the source at `place` brings; one that is there already, word for word, is passed over.

        Raises:
            InputError: the id belongs to another passage.
        """
        content = hash((passage.title, passage.text, passage.url))
        known = self._contents.setdefault(passage.id, content)
        if known != content:
            raise InputError(f"another passage with the id {passage.id!r} is there already", where=place)
        if len(self._contents) > self.count:
            self.count += 1
            self._waiting.append(passage)
            if len(self._waiting) == ROWS:
                self._flush()

    def _flush(self) -> None:
        columns = [pa.array([getattr(one, field.name) for one in self._waiting], field.type) for field in _CORPUS]
        self._writer.write_table(pa.table(columns, schema=_CORPUS))
        self._waiting.clear()

    def close(self) -> pa.Array:
        """End the file; returns the ids of all passages."""
        self._flush()
        self._writer.close()
        return pa.array(self._contents, pa.string())
