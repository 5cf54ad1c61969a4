"""What was played, as parquet: one file a job while an evaluation is under way, and all of them together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.agent.trajectory import Trajectory
from tasks.training.rollouts import SCHEMA as ROLLOUTS

# A trajectory's own columns, and of its question's row what figures and reports ask for.
SCHEMA = pa.schema(
    [
        pa.field("model", pa.string()),
        *(field for field in ROLLOUTS if field.name not in ("step", "split")),
        pa.field("type", pa.string()),
        pa.field("supporting_titles", pa.list_(pa.string())),
        pa.field("gold_passage_ids", pa.list_(pa.string())),
    ]
)
_SECONDS = b"seconds"
_SURROGATE = re.compile("[\ud800-\udfff]")


def write(
    path: Path,
    trajectories: Sequence[Trajectory],
    questions: Sequence[Mapping[str, Any]],
    *,
    model: str,
    seconds: float,
) -> None:
    """Write what a job has played; the file appears when it is whole.

    Args:
        path: the part.
        trajectories: as many of every question, those of one question next to each other.
        questions: the rows that were played.
        model: its name.
        seconds: that it took.
    """
    samples = len(trajectories) // len(questions)
    rows = []
    for number, trajectory in enumerate(trajectories):
        info = questions[number // samples]["extra_info"]
        of_question = {
            "type": info.get("type"),
            "supporting_titles": list(info["supporting_titles"]),
            "gold_passage_ids": list(info["gold_passage_ids"]),
        }
        row = {**trajectory.record(), **of_question, "model": model, "sample": number % samples}
        rows.append({name: _encodable(value) for name, value in row.items()})
    table = pa.Table.from_pylist(rows, SCHEMA.with_metadata({_SECONDS: str(seconds)}))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    pq.write_table(table, aside, compression="zstd")
    os.replace(aside, path)


def read(paths: Iterable[Path]) -> tuple[pa.Table, float]:
    """The parts together in their order, and the seconds that they took."""
    tables = [pq.read_table(path) for path in paths]
    seconds = sum(float(table.schema.metadata[_SECONDS]) for table in tables)
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables]), seconds


def _encodable(value: Any) -> Any:
    """Half of a surrogate pair, as a tool call's JSON may bring it, is replaced: no encoding has it."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_encodable(one) for one in value] if any(isinstance(one, str) for one in value) else value
    return value
