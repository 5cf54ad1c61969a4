"""Results from MLflow: the flows below the runs of an ablation's commands, and the stages' runs that these name."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tasks import tracking
from tasks.ablation import result
from tasks.ablation.result import Result
from tasks.errors import InputError
from tasks.training.steps import read_steps

LATEST = "latest"
_VALIDATION = re.compile(r"validation\.(?P<step>\d+)\.(?P<kind>.+)\.(?P<figure>em|searches|n)")
_MEND = "run `make ablations`"


def read(runs: Sequence[str]) -> list[Result]:
    """Results of every arm and seed that has ended well; of two of the same arm and seed the later.

    Args:
        runs: ids of ablations' runs, a later one over an earlier; `latest` is the last one that ended well.

    Raises:
        InputError: there is no such run, it holds no flow, or a flow lacks what is compared.
    """
    found: dict[tuple[str, int], Result] = {}
    for run in runs:
        above = tracking.latest_ablation() if run == LATEST else tracking.find_run(run)
        if above is None or above.tags.get("kind") != "ablation":
            what = "no finished ablation" if run == LATEST else f"no ablation's run {run}"
            raise InputError(what, where="MLflow", mend=_MEND)
        for flow in tracking.flows(above.run_id):
            one = _result(flow, above.tags["machine"])
            found[one.arm, one.seed] = one
        if not found:
            raise InputError("no flow in it has ended well", where=f"ablation's run {above.run_id}", mend=_MEND)
    return list(found.values())


def _result(flow: tracking.Record, machine: str) -> Result:
    where = f"arm {flow.tags['arm']}, seed {flow.tags['seed']}"
    rl, evaluate = (_stage(flow, stage, where) for stage in ("rl", "evaluate"))
    validation: dict[str, dict[str, dict[str, float]]] = {}
    for key, value in rl.metrics.items():
        if match := _VALIDATION.fullmatch(key):
            validation.setdefault(match["step"], {}).setdefault(match["kind"], {})[match["figure"]] = value
    with tempfile.TemporaryDirectory() as folder:
        trajectories = _artifact(evaluate, "trajectories.parquet", Path(folder), where)
        steps = _artifact(rl, "steps.jsonl", Path(folder), where)
        return result.from_outputs(
            arm=flow.tags["arm"],
            seed=int(flow.tags["seed"]),
            profile=flow.tags["profile"],
            commit=flow.tags["git.commit"],
            machine=machine,
            trajectories=pd.read_parquet(trajectories, columns=result.COLUMNS),
            steps=read_steps(steps),
            validation=validation,
            seconds_per_step=rl.metrics["seconds_per_step"],
            prompts=int(rl.params["rl.prompts"]),
        )


def _stage(flow: tracking.Record, stage: str, where: str) -> tracking.Record:
    run_id = flow.tags.get(f"run.{stage}")
    record = tracking.find_run(run_id) if run_id else None
    if record is None:
        # Made in another clone, whose outputs came by DVC's remote.
        raise InputError(f"no run of stage {stage} in this workspace's MLflow", where=where, mend=_MEND)
    return record


def _artifact(record: tracking.Record, name: str, folder: Path, where: str) -> Path:
    path = tracking.artifact(record.run_id, name, folder)
    if path is None:
        raise InputError(f"no artifact {name} in {record.name}'s run {record.run_id}", where=where, mend=_MEND)
    return path
