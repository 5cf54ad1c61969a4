"""A run of which only MLflow is left: the artifacts of stage rl, or the metrics that it logged step by step."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from tasks.diagnosis.finding import Points
from tasks.diagnosis.loading import add_inputs
from tasks.diagnosis.run_data import RunData
from tasks.training.steps import read_steps

REWARD = "critic/score/mean"


class Record(Interface):
    """What is asked of `tasks.tracking.Record`."""

    @property
    def run_id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def params(self) -> dict[str, str]: ...
    @property
    def metrics(self) -> dict[str, float]: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def data(self) -> dict[str, str]: ...


def metrics(record: Record, history: Callable[[str, str], Points]) -> Mapping[str, Points]:
    """Every metric that was logged by step (verl's have a slash in their names), as points (step, value)."""
    return {name: history(record.run_id, name) for name in record.metrics if "/" in name}


def same(data: RunData, logged: Mapping[str, Points]) -> bool:
    """Whether files are those of a run: the rewards of all steps that both have are equal, and there are some."""
    known, other = dict(logged.get(REWARD, [])), dict(data.series(REWARD))
    common = known.keys() & other.keys()
    return bool(common) and len(known) == len(other) and all(math.isclose(known[step], other[step]) for step in common)


def load(
    record: Record, logged: Mapping[str, Points], artifact: Callable[[str, str, Path], Path | None], workspace: Path
) -> RunData:
    """The run from its artifacts, and from its metrics where it has none.

    What it was made from counts only where the workspace still has it, by DVC's hash.
    """
    data = RunData(name=f"MLflow run {record.run_id}", params=nested(record.params))
    with tempfile.TemporaryDirectory() as folder:
        steps, sanity = (artifact(record.run_id, name, Path(folder)) for name in ("steps.jsonl", "sanity.json"))
        data.steps = read_steps(steps) if steps else _steps(logged)
        data.sanity = json.loads(sanity.read_text(encoding="utf-8")) if sanity else None
    lost = "its files have been replaced since, and the rollout log is no artifact"
    data.absent = {
        "rollouts": lost,
        "sanity": "the run has no artifact sanity.json",
        "steps": "the run has logged no step",
    }
    add_inputs(data, workspace, record.data)
    data.state = f"{record.status.lower()}, {len(data.series(REWARD))} of {data.param('rl.steps', '?')} steps"
    return data


def nested(params: Mapping[str, str]) -> dict[str, Any]:
    """Sections from MLflow's flat parameters, all of which are texts."""
    found: dict[str, Any] = {}
    for key, text in params.items():
        *path, last = key.split(".")
        section = found
        for name in path:
            section = section.setdefault(name, {})
        section[last] = _value(text)
    return found


def _value(text: str) -> Any:
    """What a parameter was before MLflow made a text of it; of Python's own forms None, True and False."""
    python = {"None": None, "True": True, "False": False}
    if text in python:
        return python[text]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _steps(logged: Mapping[str, Points]) -> list[dict[str, Any]]:
    numbers = sorted({step for points in logged.values() for step, _ in points})
    by_step: dict[int, dict[str, float]] = {step: {} for step in numbers}
    for name, points in logged.items():
        for step, value in points:
            by_step[step][name] = value
    return [{"step": step, "data": by_step[step]} for step in numbers]
