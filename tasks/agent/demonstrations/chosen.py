"""RL's rows when a file names its questions, as `python -m tasks.select` writes one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import InputError

KEY = "demos.rl_questions"


def read_ids(folder: Path, name: str) -> set[str]:
    """The ids of the questions that a file names, JSONL with the key `id`.

    Args:
        folder: where files lie whose change DVC sees.
        name: the file's, from there on.

    Raises:
        InputError: it does not lie there, is missing or broken, or names no question.
    """
    if Path(name).is_absolute() or ".." in Path(name).parts:
        mend = f"put it there, and name it from {folder} on"
        raise InputError(f"{name} does not lie below {folder}", where=KEY, mend=mend)
    path = folder / name
    if not path.is_file():
        raise InputError("no such file", where=f"{KEY}: {path}", mend="write it with `python -m tasks.select`")
    found = set()
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            found.add(str(json.loads(line)["id"]))
        except (ValueError, KeyError, TypeError):  # no JSON, no key id, no object
            raise InputError(
                "is no question", where=f"{path}, line {number}", mend='write {"id": ...} a line'
            ) from None
    if not found:
        raise InputError("names no question", where=f"{KEY}: {path}")
    return found


def write(left: Path, wanted: set[str] | None, target: Path) -> int:
    """Write RL's rows: of those that demonstrations have left all, or the chosen questions', in their order.

    Args:
        left: all rows that are left, parquet.
        wanted: the chosen questions' ids; None: all.
        target: takes the rows.

    Returns:
        the number of rows written.

    Raises:
        InputError: a chosen question is none of these rows'.
    """
    if wanted is None:
        shutil.copyfile(left, target)
        return pq.read_metadata(target).num_rows
    rows = pq.read_table(left)
    known = rows["extra_info"].combine_chunks().field("id").to_pylist()
    unknown = sorted(wanted.difference(known))
    if unknown:
        raise InputError(
            f"{len(unknown)} of {len(wanted)} questions are none of RL's, such as {unknown[0]!r}",
            where=KEY,
            mend="select them from a run on the same data",
        )
    rows = rows.filter(pa.array([one in wanted for one in known]))
    pq.write_table(rows, target, compression="zstd")
    return rows.num_rows
