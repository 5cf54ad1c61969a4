"""Tables: separated values and parquet, a row at a time."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.qa.reading import Row, RowError
from tasks.qa.reading.opening import PARQUET, lines, regular

# Of a field: where a quote is never closed, the rest of the file would be one.
LONGEST_FIELD = 1 << 24
_BATCH = 8192
_SHOWN = 60
_DELIMITERS = ",;\t|"

# Given the names of all columns, those that are to be read; refuses where one is missing.
Choice = Callable[[list[str]], list[str]]


def separated(path: Path, delimiter: str, choose: Choice) -> Iterator[Row]:
    """Rows of separated values whose first line names the columns; all values are texts.

    Raises:
        InputError: the file can't be read, the columns are not the ones wanted, or a quote is never closed.
    """
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(_decoded(path), delimiter=delimiter, strict=True)
    line = 0
    try:
        names = next(reader, [])
        _check_header(names, path, delimiter)
        wanted = choose(names)
        line = reader.line_num
        for values in reader:
            origin, line = f"{path}, line {line + 1}", reader.line_num
            if not values:
                continue
            if len(values) != len(names):
                yield origin, RowError("wrong_columns", f"{len(values)} columns, and the first line names {len(names)}")
                continue
            row = dict(zip(names, values, strict=True))
            yield origin, {name: row[name] for name in wanted}
    except csv.Error as error:
        mend = "close every quote, and double those inside of a field"
        raise InputError(f"not separated values: {error}", where=f"{path}, line {line + 1}", mend=mend) from None


def _decoded(path: Path) -> Iterator[str]:
    for number, line in lines(path):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            told = f"not UTF-8: {error.reason} at byte {error.start + 1} of the line"
            raise InputError(told, where=f"{path}, line {number}", mend="convert it: `iconv -t UTF-8`") from None


def _check_header(names: list[str], path: Path, delimiter: str) -> None:
    if not any(name.strip() for name in names):
        mend = "write the names of the columns there"
        raise InputError("the first line names no columns", where=f"{path}, line 1", mend=mend)
    _refuse_twice(names, f"{path}, line 1")
    other = next((one for one in _DELIMITERS if len(names) == 1 and one != delimiter and one in names[0]), None)
    if other is not None:
        mend = f"set the source's key `delimiter: {other!r}`"
        raise InputError(
            f"one column, {names[0][:_SHOWN]!r}: values are separated otherwise", where=f"{path}, line 1", mend=mend
        )


def _refuse_twice(names: list[str], where: str) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        mend = "give every column a name of its own"
        raise InputError(f"two columns are called {twice[:_SHOWN]!r}", where=where, mend=mend)


def parquet(path: Path, choose: Choice) -> Iterator[Row]:
    """Rows of a parquet file, numbered from 0, nested columns as lists and objects; one batch is held at a time.

    Raises:
        InputError: the file is damaged or no parquet, or the columns are not the ones wanted.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    regular(path)
    with path.open("rb") as raw:
        if raw.read(len(PARQUET)) != PARQUET:
            mend = "name the reader of the form that it has"
            raise InputError("not parquet, whatever its name says", where=str(path), mend=mend)
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _refuse_twice(names, str(path))
            for batch in file.iter_batches(_BATCH, columns=choose(names)):
                for row in _rows(batch):
                    yield f"{path}, row {number}", row
                    number += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        told = " ".join(str(error).split())
        raise InputError(
            f"damaged parquet: {told}", where=f"{path}, from row {number} on", mend="fetch it again"
        ) from None


def _rows(batch: Any) -> Iterator[dict[str, Any] | RowError]:
    try:
        columns = {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    # What a file can hold and Python can't: text that is no UTF-8, a date after the year 9999, a key twice in a struct.
    except (ValueError, OverflowError):
        for number in range(batch.num_rows):
            yield _row(batch.slice(number, 1))
        return
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _row(batch: Any) -> dict[str, Any] | RowError:
    """The only row of a batch, or which of its columns can't be read."""
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            (row[name],) = column.to_pylist()
        except UnicodeDecodeError as error:
            return RowError("not_utf8", f"{name}: not UTF-8: {error.reason} at byte {error.start + 1}")
        except (ValueError, OverflowError) as error:
            return RowError("wrong_type", f"{name}: {' '.join(str(error).split())}")
    return row
