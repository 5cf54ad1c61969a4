"""The stream of step metrics: verl's file logger writes it, the stage follows it, MLflow gets it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tasks.files import write_text_aside

Step = dict[str, Any]


def completed(data: dict[str, Any]) -> dict[str, Any]:
    """A step's metrics with the entropy under the one name that all readers know, `actor/entropy`.

    Where the engine's probabilities stand for the old ones (rollout_correction.mode: bypass), verl computes none before
    the update (trainer/ppo/v1/trainer_base.py:1645), but logs the same figure of the updates' own forward passes as
    `actor/entropy_loss` (workers/utils/losses.py:129): the mean over a batch's optimizer steps, the policy moving.
    """
    if "actor/entropy" in data or "actor/entropy_loss" not in data:
        return data
    return {**data, "actor/entropy": data["actor/entropy_loss"]}


def whole_lines(path: Path) -> list[bytes]:
    """Lines of a JSONL file; a last one that a kill has cut short is left out.

    Bytes, since a kill may cut a character too, and str.splitlines would also split at characters such as U+2028,
    which JSON leaves in a line.
    """
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def read_steps(path: Path) -> list[Step]:
    """Steps of a JSONL file as `{"step": n, "data": {metric: value}}`, ascending, lines of the same step merged.

    A last line that a kill has cut short is left out.
    """
    if not path.is_file():
        return []
    merged: dict[int, dict[str, Any]] = {}
    for line in whole_lines(path):
        entry = json.loads(line)
        merged.setdefault(int(entry["step"]), {}).update(entry["data"])
    return [{"step": step, "data": completed(merged[step])} for step in sorted(merged)]


def write_steps(path: Path, steps: Iterable[Step]) -> None:
    """Write steps as JSONL; a kill leaves the old file or the new one."""
    write_text_aside(path, "".join(json.dumps(step) + "\n" for step in steps))


def write_table(path: Path, steps: Iterable[Step]) -> None:
    """Write the training steps as CSV for `dvc plots`: a row a step, a column a metric."""
    rows = [{"step": step["step"], **step["data"]} for step in steps if "critic/score/mean" in step["data"]]
    names = ["step", *sorted({name for row in rows for name in row} - {"step"})]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def numbers(data: dict[str, Any]) -> dict[str, float]:
    """The numeric metrics of a step."""
    return {name: float(value) for name, value in data.items() if isinstance(value, int | float)}


class Follower:
    """Follows a steps file while it grows; calls `on_step(step, metrics)` for each whole line once."""

    def __init__(self, path: Path, on_step: Callable[[int, dict[str, float]], None]) -> None:
        self._path, self._on_step, self._offset = path, on_step, 0

    def poll(self) -> None:
        """Read what has been added since the last call."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                entry = json.loads(line)
                self._on_step(int(entry["step"]), numbers(completed(entry["data"])))
