"""JSON as lines, as one array, or as one object that holds an array: each a row at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from tasks.errors import InputError
from tasks.qa.reading import Row, RowError, as_row
from tasks.qa.reading.opening import lines, no_rows, opened

NOT_JSON = "not_json"
Layout = Literal["lines", "array", "object"]
_HEAD = 4096
_SHOWN = 60
# SQuAD's form on one line can't be told from a row by its first bracket, so its list of articles decides.
_WHOLE = re.compile(rb'\{\s*(\n|("version"\s*:\s*("[^"]*"|[\d.]+)\s*,\s*)?"data"\s*:\s*\[\s*[{\]])')
# ijson's paths of what it is in need memory that grows with the square of the depth.
DEEPEST = 100


def layout(path: Path) -> Layout:
    """Whether a file of JSON is one object a line, one array, or one object over the whole file.

    Raises:
        InputError: it begins neither with a bracket nor with a brace.
    """
    with opened(path) as file:
        head = file.read(_HEAD).lstrip()
    if head.startswith(b"["):
        return "array"
    if head.startswith(b"{"):
        return "object" if _WHOLE.match(head) else "lines"
    if not head:
        raise no_rows(path)
    raise InputError(
        "not JSON: begins neither with { nor with [", where=str(path), mend="other forms have other readers"
    )


def json_lines(path: Path) -> Iterator[Row]:
    """One object a line; blank lines are passed over.

    Raises:
        InputError: the file can't be read.
    """
    for number, line in lines(path):
        if line.isspace():
            continue
        origin = f"{path}, line {number}"
        try:
            yield as_row(origin, decoded(line.decode().rstrip()))
        except UnicodeDecodeError as error:
            fault = RowError("not_utf8", f"not UTF-8: {error.reason} at byte {error.start + 1} of the line")
            yield origin, fault
        except RowError as error:
            yield origin, error


def decoded(text: str) -> Any:
    """A text as JSON.

    Raises:
        RowError: it is none.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise RowError(NOT_JSON, f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise RowError(NOT_JSON, "not JSON that can be read: nested too deeply") from None
    except ValueError:
        raise RowError(NOT_JSON, "not JSON that can be read: a number of thousands of digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _twice(next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)  # json.loads would make one for every line


def _twice(key: str) -> RowError:
    return RowError("key_twice", f"key {key[:_SHOWN]!r} comes twice in one object")


def json_array(path: Path, prefix: str = "item") -> Iterator[Row]:
    """Elements of an array, streamed and numbered from 0.

    Args:
        path: the file.
        prefix: where the array's elements are, as ijson writes it: `data.item` for `{"data": [...]}`.

    Raises:
        InputError: the file can't be read, is no JSON, or is nested deeper than `DEEPEST`: its rest can't be trusted.
    """
    import ijson

    number = 0
    with opened(path) as file:
        try:
            events = ijson.parse(_checked(ijson.basic_parse(file, use_float=True)))
            for content in ijson.items(events, prefix):
                yield as_row(f"{path}, row {number}", content)
                number += 1
        except ijson.JSONError as error:
            told = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            mend = "fetch or write it again; NaN and Infinity are no JSON"
            raise InputError(
                f"not JSON: {told.splitlines()[0].strip(' .')}", where=f"{path}, from row {number} on", mend=mend
            ) from None
        except RowError as error:
            raise InputError(error.message, where=f"{path}, from row {number} on", mend="write it otherwise") from None


def _checked(events: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Pass events of ijson on, up to one that nests too deeply or names a key of its object again."""
    seen: list[set[str]] = []
    for event, value in events:
        if event == "map_key":
            if value in seen[-1]:
                raise _twice(value)
            seen[-1].add(value)
        elif event in ("start_map", "start_array"):
            seen.append(set())
            if len(seen) > DEEPEST:
                raise RowError(NOT_JSON, f"nested more than {DEEPEST} deep")
        elif event in ("end_map", "end_array"):
            seen.pop()
        yield event, value
