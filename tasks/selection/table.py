"""The selected questions as a file that ingest reads, and `demos.rl_questions` as well."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.files import write_text_aside
from tasks.selection.curves import Curves

# Of a question's row, beside what the log has of it.
_OF_ROW = ("type", "supporting_titles", "gold_passage_ids")


def rows_by_id(train: Path) -> dict[str, Mapping[str, Any]]:
    """What ingest knows of each training question, by id; nothing where its table is not there."""
    if not train.is_file():
        return {}
    return {info["id"]: info for info in pd.read_parquet(train, columns=["extra_info"])["extra_info"]}


def write(
    path: Path, curves: Curves, values: np.ndarray, taken: Sequence[int], rows: Mapping[str, Mapping[str, Any]]
) -> int:
    """Write a line a question, in the form of reader `jsonl`, with its `impact`.

    Args:
        path: the JSONL file; written aside and renamed.
        curves: of all questions.
        values: their impacts, shape (n,).
        taken: numbers of those that are written, in this order.
        rows: what ingest knows of the questions, by id.

    Returns:
        how many of them ingest's table does not have: these are without titles, gold passages and type.
    """
    lines = []
    for number in taken:
        one = curves.ids[number]
        info = rows.get(one, {})
        line = {"id": one, **{name: curves.known.at[one, name] for name in curves.known.columns}}
        line |= {name: info[name] for name in _OF_ROW if info.get(name) is not None}
        line["impact"] = float(values[number])
        lines.append(json.dumps({name: _plain(value) for name, value in line.items()}, ensure_ascii=False) + "\n")
    write_text_aside(path, "".join(lines))
    return sum(curves.ids[number] not in rows for number in taken)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
