"""MLflow: one run a stage, in SQLite under mlruns/, unless MLFLOW_TRACKING_URI names a server.

This file and `release/registry.py` are the only ones that know mlflow.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import posixpath
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import tasks.quiet  # noqa: F401  before mlflow is imported

# Environment variables that a run takes its place from: MLflow's experiment, the run above it, and tags of a flow's
# run as a JSON object, of which `name` is its name.
EXPERIMENT = "FORAGER_EXPERIMENT"
PARENT_RUN = "FORAGER_PARENT_RUN"
FLOW_TAGS = "FORAGER_FLOW_TAGS"
CODE = ("tasks", "flows", "params/defaults.yaml", "dvc.yaml")  # a change here makes a run's commit inexact
_LONGEST_NAME = 250  # MLflow's limit for a metric's name
_REFUSED = re.compile(r"[^\w\-. /:]")


def flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested mapping to pairs of dotted key and value."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def tracking_uri() -> str:
    """MLflow's address: MLFLOW_TRACKING_URI, or the workspace's own SQLite database."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlruns' / 'mlflow.db'}"


def connect() -> Any:
    """The mlflow module, with the experiment in place: FORAGER_EXPERIMENT, or `train-and-eval`.

    Processes that create MLflow's tables at the same time leave the database broken for good, so the
    first set-up is done under a file lock (seen with mlflow 3.17.2).
    """
    os.environ["MLFLOW_TRACKING_URI"] = tracking_uri()
    import logging

    for name in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    import mlflow

    folder = Path.cwd() / "mlruns"
    folder.mkdir(exist_ok=True)
    with (folder / ".setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        experiment = os.environ.get(EXPERIMENT) or "train-and-eval"
        if mlflow.get_experiment_by_name(experiment) is None:
            local = tracking_uri().startswith("sqlite:")
            mlflow.create_experiment(experiment, (folder / "artifacts").as_uri() if local else None)
    mlflow.set_experiment(experiment)
    return mlflow


def git_commit() -> str:
    """Commit of the code, marked when the work tree differs from it; `unknown` outside git."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    if found.returncode:
        return "unknown"
    changed = subprocess.run(["git", "status", "--porcelain", "--", *CODE], capture_output=True, text=True)
    return found.stdout.strip() + ("+changes" if changed.stdout.strip() else "")


def data_hashes() -> dict[str, str]:
    """Hash of every output by path, as dvc.lock holds them."""
    lock = Path("dvc.lock")
    if not lock.is_file():
        return {}
    stages = (yaml.safe_load(lock.read_text(encoding="utf-8")) or {}).get("stages", {})
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", []) if "md5" in out}


def run_id_of(stage: str) -> str | None:
    """Run id of a stage's latest result, which survives skipped and restored stages."""
    path = Path("metrics", f"{stage}.json")
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8")).get("run_id")


def metric_name(key: str) -> str:
    """A name that MLflow takes.

    Of the characters that it refuses `@` becomes `_at_` and any other `_`; so does every slash where the name, read as
    a path, would not be its own shortest form. A name that is too long keeps its beginning, and its hash tells it
    from others.
    """
    name = _REFUSED.sub("_", key.replace("@", "_at_"))
    if posixpath.normpath(name) != name or name.startswith((".", "/")):
        name = f"_{name.lstrip('.')}".replace("/", "_")
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name


class Run:
    """A stage's MLflow run."""

    def __init__(self, mlflow: Any, run_id: str) -> None:
        self._mlflow, self.run_id = mlflow, run_id

    def log_figures(self, figures: Mapping[str, Any], step: int | None = None) -> None:
        """Log every finite number of a nested mapping as a metric with a dotted name, see `metric_name`."""
        numbers = {
            metric_name(key): float(value)
            for key, value in flatten(figures)
            if isinstance(value, bool | int | float) and math.isfinite(value)
        }
        self._mlflow.log_metrics(numbers, step=step)

    def log_artifact(self, path: Path) -> None:
        """Copy a file or a folder into the run's artifacts."""
        if path.is_dir():
            self._mlflow.log_artifacts(str(path), path.name)
        else:
            self._mlflow.log_artifact(str(path))

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows as a table that MLflow's pages show, sort and search; `name` ends in `.json`."""
        columns = list(dict.fromkeys(key for row in rows for key in row))
        self._mlflow.log_table({column: [row.get(column) for row in rows] for column in columns}, name)

    def log_data(self, path: Path, name: str, context: str, digest: str) -> None:
        """Name a file as a data set of this run, with its content's hash as digest."""
        from mlflow.data.meta_dataset import MetaDataset
        from mlflow.data.sources import LocalArtifactDatasetSource

        # MLflow keeps at most 36 characters of a digest.
        dataset = MetaDataset(source=LocalArtifactDatasetSource(str(path)), name=name, digest=digest[:36])
        self._mlflow.log_input(dataset, context=context)

    def tag(self, **tags: str) -> None:
        """Set tags of the run."""
        self._mlflow.set_tags(tags)


@contextlib.contextmanager
def stage_run(stage: str, params: Mapping[str, Any], profile: str, upstream: Sequence[str]) -> Iterator[Run]:
    """One run for one stage, a child of the flow's run where there is one.

    Logged at the start: the stage's parameters, its inputs with DVC's hashes, git's commit, and the run
    ids of the stages it builds on.
    """
    mlflow = connect()
    parents = {f"parent.{name}": known for name in upstream if (known := run_id_of(name))}
    tags = {"stage": stage, "profile": profile, "git.commit": git_commit(), **parents}
    with mlflow.start_run(run_name=stage, parent_run_id=os.environ.get(PARENT_RUN), tags=tags) as active:
        run = Run(mlflow, active.info.run_id)
        pairs = flatten(params)
        mlflow.log_params({key: json.dumps(value) if isinstance(value, list) else value for key, value in pairs})
        hashes = data_hashes()
        for name in upstream:
            path = Path("data", name)
            if str(path) in hashes:
                run.log_data(path, name=str(path), context=stage, digest=hashes[str(path)])
        yield run


@contextlib.contextmanager
def parent_run(name: str, profile: str, stages: Sequence[str]) -> Iterator[Run]:
    """The run of a whole flow: stages become its children by the variable FORAGER_PARENT_RUN.

    Set for the flow itself, as an ablation does, the variable names the run that the flow's becomes a child of;
    FORAGER_FLOW_TAGS has further tags. When the flow has ended well, the tags `run.STAGE` name each stage's run, also
    of a stage that was skipped.
    """
    mlflow = connect()
    given = json.loads(os.environ.get(FLOW_TAGS) or "{}")
    name = given.pop("name", name)
    tags = {"kind": "flow", "profile": profile, "git.commit": git_commit(), **given}
    with mlflow.start_run(run_name=name, parent_run_id=os.environ.get(PARENT_RUN), tags=tags) as active:
        run = Run(mlflow, active.info.run_id)
        yield run
        run.tag(**{f"run.{stage}": known for stage in stages if (known := run_id_of(stage))})


@contextlib.contextmanager
def ablation_run(profile: str, arms: Sequence[str], seeds: Sequence[int], machine: str) -> Iterator[Run]:
    """The run of an ablation's command, above the runs of its flows."""
    mlflow = connect()
    tags = {
        "kind": "ablation",
        "profile": profile,
        "arms": ",".join(arms),
        "seeds": ",".join(map(str, seeds)),
        "machine": machine,
        "git.commit": git_commit(),
    }
    with mlflow.start_run(run_name=f"ablations-{profile}", tags=tags) as active:
        yield Run(mlflow, active.info.run_id)


@contextlib.contextmanager
def release_run(profile: str, tags: Mapping[str, str]) -> Iterator[Run]:
    """The run of the release action, which holds what a registered version was made from.

    Inside a flow's process its parent is the flow's run; by itself it stands alone.
    """
    mlflow = connect()
    everything = {**tags, "kind": "release", "profile": profile}
    with mlflow.start_run(run_name="release", nested=True, tags=everything) as active:
        yield Run(mlflow, active.info.run_id)


@dataclass(frozen=True)
class Record:
    """What MLflow holds of a run.

    `seconds` is None while it runs, `metrics` are the last values, `data` maps the path of each input to its hash.
    """

    run_id: str
    name: str
    status: str
    started: float
    seconds: float | None
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    data: dict[str, str]


def find_run(run_id: str) -> Record | None:
    """Look up a run; None when this workspace's MLflow does not know it (it was made in another clone)."""
    from mlflow.exceptions import MlflowException

    try:
        run = connect().get_run(run_id)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # the latter: no id at all
            return None
        raise
    return _record(run)


def latest_ablation() -> Record | None:
    """The latest run of an ablation's command that has ended well; None when there is none."""
    return _latest("attributes.status = 'FINISHED' and tags.kind = 'ablation'")


def flows(run_id: str) -> list[Record]:
    """The flows below an ablation's run that have ended well, the oldest first.

    Their tags `run.STAGE` name the stages' runs, which may be older than they.
    """
    conditions = ("attributes.status = 'FINISHED'", "tags.kind = 'flow'", f"tags.`mlflow.parentRunId` = '{run_id}'")
    return _found(" and ".join(conditions), "ASC", 50_000)


def history(run_id: str, metric: str) -> list[tuple[int, float]]:
    """Points (step, value) of a metric that was logged by step, ascending; empty when it never was."""
    points = connect().MlflowClient().get_metric_history(run_id, metric)
    return sorted({point.step: point.value for point in points}.items())


def artifact(run_id: str, name: str, folder: Path) -> Path | None:
    """Copy a file among a run's artifacts into a folder; None where the run has no such artifact."""
    client = connect().MlflowClient()
    if name not in {entry.path for entry in client.list_artifacts(run_id, posixpath.dirname(name) or None)}:
        return None
    return Path(client.download_artifacts(run_id, name, str(folder)))


def child(run_id: str, stage: str) -> Record | None:
    """The latest run of a stage inside a flow's run, whatever came of it; None when the flow has none."""
    return _latest(f"tags.`mlflow.parentRunId` = '{run_id}' and tags.stage = '{stage}'")


def _latest(condition: str) -> Record | None:
    return next(iter(_found(condition, "DESC", 1)), None)


def _found(condition: str, order: str, most: int) -> list[Record]:
    """Runs of any experiment in the order of their start."""
    found = connect().search_runs(
        search_all_experiments=True,
        filter_string=condition,
        order_by=[f"attributes.start_time {order}"],
        max_results=most,
        output_format="list",
    )
    return [_record(run) for run in found]


def _record(run: Any) -> Record:
    end = run.info.end_time
    return Record(
        run_id=run.info.run_id,
        name=run.info.run_name,
        status=run.info.status,
        started=run.info.start_time / 1000,
        seconds=(end - run.info.start_time) / 1000 if end else None,
        params=dict(run.data.params),
        metrics=dict(run.data.metrics),
        tags=dict(run.data.tags),
        data={item.dataset.name: item.dataset.digest for item in run.inputs.dataset_inputs},
    )
