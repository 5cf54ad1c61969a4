"""One pass over a table of rows: what expectations look at, in memory that a laptop has.

A row of verl's form is heavy with its prompt and its nested values. Batch by batch it is reduced to a few columns
of a frame, and to the texts that questions are compared by; the rest is let go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.errors import InputError
from tasks.qa import near
from tasks.qa.suite import form
from tasks.qa.suite.answers import NONE, answer_fault, looks_joined
from tasks.qa.suite.row_faults import row_faults
from tasks.qa.table import ROWS

FEW_NONE = 0.01  # share of a source's questions whose only answer may be "None"; a single one always may
_PATIENCE = 5.0  # seconds between two lines of progress
_TEXT, _TEXTS = pa.string(), pa.list_(pa.string())
_OF_PROMPT = ("role", "content")
_SINGLE = ("data_source", "environment", "agent_name", "ability", "style", "split", "id", "question")

# Tokens of each prompt as an episode begins with it.
Measure = Callable[[Sequence[Sequence[dict[str, str]]]], list[int]]


@dataclass(frozen=True)
class Survey:
    """A table as its expectations see it.

    Attributes:
        name: of the table: its split.
        path: the parquet file.
        frame: one light row for each row of the table, with the columns
            `id`, `data_source`, `hops`, `passage` (the first gold passage), each null where the row has none;
            `row_fault`, `answer_fault`: what is wrong, null where nothing is;
            `joined`: whether the only answer reads as several;
            `prompt_tokens`: null where there is no valid prompt or nothing to measure with.
        questions: texts; the prompt's where the row names none, "" where that has none either.
        answers, golds: lists of texts, empty where there are none.
    """

    name: str
    path: Path
    frame: pd.DataFrame
    questions: pa.ChunkedArray
    answers: pa.ChunkedArray
    golds: pa.ChunkedArray

    @cached_property
    def texts(self) -> near.Texts:
        """The questions as they are compared."""
        return near.Texts(values(self.questions), values(self.answers), values(self.golds))


def values(column: pa.ChunkedArray) -> Iterator[Any]:
    """The values of a column as Python objects, a chunk at a time."""
    return (value for chunk in column.chunks for value in chunk.to_pylist())


def survey(
    name: str, path: Path, *, stage: bool, measure: Measure | None = None, say: Callable[[str], None] | None = None
) -> Survey:
    """Read a table whose columns are as `form.resolve` wants them.

    Args:
        name: of the table.
        path: a parquet file of rows.
        stage: whether the table must have all that ingest writes.
        measure: gives the prompts' lengths; without it they are not measured.
        say: is told every few seconds how many rows are read.

    Raises:
        InputError: rows can't be read, or hold text that is no UTF-8.
    """
    file = form.open_table(path)
    paths, faults = form.resolve(file.schema_arrow, stage=stage)
    assert not faults, faults
    wanted = sorted({of.split(".")[0].removesuffix("[]") for of in paths.values()})
    parts: list[pd.DataFrame] = []
    texts: dict[str, list[pa.Array]] = {"question": [], "answers": [], "golds": []}
    told, read = time.monotonic(), 0
    for batch in _batches(file, path, wanted):
        columns = {field: _column(batch, field, of) for field, of in paths.items() if field not in _OF_PROMPT}
        prompts = batch.column("prompt").to_pylist()
        questions = _questions(columns.get("question"), prompts)
        parts.append(_reduce(batch, columns, questions, prompts, paths, stage, measure))
        texts["question"].append(pa.array(questions, _TEXT))
        texts["answers"].append(_whole(columns["answers"]))
        texts["golds"].append(_whole(columns.get("golds", pa.nulls(batch.num_rows, _TEXTS))))
        read += batch.num_rows
        if say is not None and time.monotonic() - told > _PATIENCE:
            told = time.monotonic()
            say(f"{name}: {read:,} of {file.metadata.num_rows:,} rows read")
    if not parts:
        empty = {field: pa.array([], _TEXTS if field in ("answers", "golds") else _TEXT) for field in texts}
        return Survey(name, path, _frame(0), *(pa.chunked_array([array]) for array in empty.values()))
    frame = pd.concat(parts, ignore_index=True)
    _note_none(frame, pa.chunked_array(texts["answers"]))
    return Survey(name, path, frame, *(pa.chunked_array(of) for of in texts.values()))


def _batches(file: pq.ParquetFile, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    start = 0
    try:
        for batch in file.iter_batches(ROWS, columns=columns):
            _check_text(batch, path, start)
            yield batch
            start += batch.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"can't be read from row {start} on: {str(error).splitlines()[0]}", where=str(path), mend="write it again"
        ) from None


def _check_text(batch: pa.RecordBatch, path: Path, start: int) -> None:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for row in range(batch.num_rows):
            try:
                batch.slice(row, 1).to_pylist()
            except UnicodeDecodeError:
                where = f"{path}, row {start + row}"
                raise InputError("text that is no UTF-8", where=where, mend="write it again as UTF-8") from None
        raise


def _column(batch: pa.RecordBatch, field: str, of: str) -> pa.Array:
    """A field's values as text, lists of text or whole numbers, whatever physical type the file has for them."""
    array = form.column(batch, of)
    if field == "ground_truth":
        return array
    if field in ("index", "hops"):
        return array.cast(pa.int64(), safe=False)  # what is too large for it becomes negative, and is told
    if field in _SINGLE:
        return array.cast(_TEXT)
    if of.endswith("[]"):
        return array.cast(_TEXTS)
    # One answer as plain text is a list of one.
    return pa.ListArray.from_arrays(pa.array(np.arange(len(array) + 1, dtype=np.int32)), array.cast(_TEXT))


def _questions(named: pa.Array | None, prompts: list[Any]) -> list[str]:
    """The questions that rows name, else those that their prompts ask."""
    given = [None] * len(prompts) if named is None else named.to_pylist()
    return [
        one if one and not one.isspace() else form.asked(prompt) for one, prompt in zip(given, prompts, strict=True)
    ]


def _whole(lists: pa.Array) -> pa.Array:
    """The lists without null elements; an empty list where there is none."""
    if lists.null_count == 0 and pc.list_flatten(lists).null_count == 0:
        return lists
    kept = [[value for value in one or () if value is not None] for one in lists.to_pylist()]
    return pa.array(kept, _TEXTS)


def _frame(rows: int, **columns: Any) -> pd.DataFrame:
    kinds = {
        "id": "str",
        "data_source": "str",
        "hops": "Int64",
        "passage": "str",
        "row_fault": object,
        "answer_fault": object,
        "joined": bool,
        "prompt_tokens": "Int64",
    }
    none = [None] * rows
    return pd.DataFrame({name: pd.Series(columns.get(name, none), dtype=kind) for name, kind in kinds.items()})


def _reduce(
    batch: pa.RecordBatch,
    columns: dict[str, pa.Array],
    questions: list[str],
    prompts: list[Any],
    paths: dict[str, str],
    stage: bool,
    measure: Measure | None,
) -> pd.DataFrame:
    answers = columns["answers"].to_pylist()
    given: dict[str, Any] = {
        name: columns[name].to_pandas() for name in ("id", "data_source", "hops") if name in columns
    }
    if "golds" in columns:
        given["passage"] = [golds[0] if golds else None for golds in columns["golds"].to_pylist()]
    if measure is not None:
        given["prompt_tokens"] = _lengths(prompts, measure)
    return _frame(
        len(prompts),
        **given,
        row_fault=row_faults(batch, columns, prompts, questions, paths, stage=stage),
        answer_fault=[answer_fault(one) for one in answers],
        joined=[looks_joined(one) for one in answers],
    )


def _lengths(prompts: list[Any], measure: Measure) -> list[int | None]:
    valid = [form.prompt_fault(prompt) is None for prompt in prompts]
    found = iter(measure([prompt for prompt, one in zip(prompts, valid, strict=True) if one]))
    return [next(found) if one else None for one in valid]


def _note_none(frame: pd.DataFrame, answers: pa.ChunkedArray) -> None:
    """Fill in the fault of every answer "None" of sources that have too many of them to be meant."""
    if not pc.any(pc.equal(pc.list_flatten(answers), NONE)).as_py():
        return
    none = pd.Series([answer == [NONE] for answer in values(answers)], frame.index, bool)
    groups = none.groupby(frame["data_source"].fillna(""))
    missing = none & (groups.transform("sum") > 1) & (groups.transform("mean") > FEW_NONE)
    frame.loc[missing & frame["answer_fault"].isna(), "answer_fault"] = "a missing value written as text"
