"""The rows that RL plays: of the training questions all or those that a file names, of the validation the first."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tasks.errors import InputError


def write_validation_rows(source: Path, target: Path, count: int) -> int:
    """The first `count` validation rows, numbered anew: the sanity check takes the first of them."""
    rows = pd.read_parquet(source).head(count)
    infos = [{**info, "index": index, "split": "validation"} for index, info in enumerate(rows["extra_info"])]
    rows.assign(extra_info=infos).to_parquet(target, index=False)
    return len(rows)


def write_training_rows(source: Path, names: Path, target: Path, least: int) -> Path:
    """The training rows of the questions that a file names, in their order.

    Args:
        source: RL's training rows.
        names: the file of `rl.questions`, JSONL; `id` is a question's.
        target: takes the rows.
        least: fewest rows that make a step.

    Returns:
        the target.

    Raises:
        InputError: the file is missing, broken or names no question, one that is not among the rows, or too few.
    """
    wanted = _ids(names)
    rows = pd.read_parquet(source)
    known = [info["id"] for info in rows["extra_info"]]
    unknown = sorted(wanted.difference(known))
    where = f"rl.questions: {names}"
    if unknown:
        raise InputError(
            f"{len(unknown)} of {len(wanted)} questions are none of RL's, such as {unknown[0]!r}",
            where=where,
            mend="select them from a run on the same data",
        )
    chosen = rows[[one in wanted for one in known]]
    if len(chosen) < least:
        raise InputError(
            f"{len(chosen)} questions do not make a step of rl.prompts: {least}",
            where=where,
            mend="select more, or lower rl.prompts",
        )
    chosen.to_parquet(target, index=False)
    return target


def _ids(names: Path) -> set[str]:
    if not names.is_file():
        raise InputError("no such file", where=f"rl.questions: {names}", mend="write it with `python -m tasks.select`")
    found = set()
    for number, line in enumerate(names.read_bytes().splitlines(), start=1):
        try:
            found.add(str(json.loads(line)["id"]))
        except (ValueError, KeyError, TypeError):  # no JSON, no key id, no object
            raise InputError(
                "is no question", where=f"{names}, line {number}", mend='write {"id": ...} a line'
            ) from None
    if not found:
        raise InputError("names no question", where=f"rl.questions: {names}")
    return found
