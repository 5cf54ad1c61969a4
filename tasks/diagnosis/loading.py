"""A run's data from its files, read and never changed: a run that is under way may be looked at."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tasks.diagnosis.run_data import RunData
from tasks.errors import InputError
from tasks.files import read_json
from tasks.training.rollouts import RolloutLog
from tasks.training.sanity import SanityCheck
from tasks.training.steps import read_steps

COLUMNS = (
    "step", "split", "question_id", "sample", "data_source", "question", "golden_answers", "hops", "text", "segments",
    "prompt_ids", "response_mask", "response_logprobs", "queries", "searches", "passage_ids", "calls", "answer",
    "copied_example", "stop_reason", "success", "format_valid", "reward", "sampling",
)  # fmt: skip
SANITY = ("episodes", "tokens", "max_logprob_diff", "disagreements", "passed")
MOST_FILES = 80  # steps whose rollouts are read, evenly spread over a longer run, the first and the last among them
_STEP = re.compile(r"(?P<split>train|validation)_(?P<step>\d+)\.(?P<rest>[\w.]+)")
_OTHER_COMMAND = "name a workspace, a run's folder (data/rl, checkpoints/FINGERPRINT) or an MLflow run id"


def load(folder: Path) -> RunData:
    """The run that a folder holds.

    Args:
        folder: a workspace, of which the run under way is taken where it is newer than data/rl; or a run's own folder,
            whose workspace is the nearest folder above with `data`.

    Raises:
        InputError: there is no run of stage rl in it.
    """
    if not folder.is_dir():
        raise InputError(
            "no such folder, and no run of this workspace's MLflow", where=str(folder), mend=_OTHER_COMMAND
        )
    folder = folder.resolve()
    if _is_run(folder):
        above = (one for one in folder.parents if (one / "data").is_dir() and one.name != "data")
        return _load(folder, next(above, folder))
    found = runs(folder)
    if not found:
        raise InputError("holds no run of stage rl", where=str(folder), mend=f"run `dvc repro rl`, or {_OTHER_COMMAND}")
    return _load(found[0], folder)


def runs(workspace: Path) -> list[Path]:
    """Folders of the runs that a workspace holds, finished or not, the one that changed last first."""
    folders = (workspace / "data" / "rl", *sorted((workspace / "checkpoints").glob("[!.]*")))
    return sorted((one for one in folders if _is_run(one)), key=_changed, reverse=True)


def _is_run(folder: Path) -> bool:
    """Stage rl's results, or its state: that of sft and of an index have neither rollouts nor such a file."""
    return (
        any(_tables(folder / "rollouts")) or (folder / "agent.json").is_file() or (folder / "selected.json").is_file()
    )


def _tables(rollouts: Path) -> list[Path]:
    return sorted(path for path in rollouts.glob("*") if _STEP.fullmatch(path.name)) if rollouts.is_dir() else []


def _changed(folder: Path) -> float:
    return max(
        (path.stat().st_mtime for path in (*_tables(folder / "rollouts"), folder / "steps.jsonl") if path.exists()),
        default=0.0,
    )


def _load(run: Path, workspace: Path) -> RunData:
    data = RunData(name=str(run))
    data.params = _params(run, workspace, data.absent)
    logged = {step["step"]: step for name in ("steps.live.jsonl", "steps.jsonl") for step in _steps(run / name)}
    data.steps = [logged[step] for step in sorted(logged)]
    if not data.steps:
        data.absent["steps"] = f"{run / 'steps.jsonl'} holds no step"
    frame = read_rollouts(run / "rollouts")
    if frame is None:
        data.absent["rollouts"] = f"no rollouts in {run / 'rollouts'}"
    else:
        data.rollouts, data.validations = (_of_split(frame, split) for split in ("train", "validation"))
        if data.rollouts is None:
            data.absent["rollouts"] = f"{run / 'rollouts'} holds no rollouts of a training step"
    data.sanity = _sanity(run, data)
    finished = (run / "selected.json").is_file()
    wanted = data.param("rl.steps", "?")
    data.state = "finished" if finished else "not finished"
    data.state += f", {len(data.trained) or len(data.series('critic/score/mean'))} of {wanted} steps"
    add_inputs(data, workspace)
    return data


def add_inputs(data: RunData, workspace: Path, hashes: Mapping[str, str] | None = None) -> None:
    """What the run was made from: RL's rows, the demonstrations, the index's figures, the passages.

    Args:
        data: takes them.
        workspace: where they lie.
        hashes: DVC's hash of each input by its path; what dvc.lock has another one of is left out. None: all counts.
    """
    folder = workspace / "data"
    rows, demos = folder / "demos" / "rl_train.parquet", folder / "demos" / "train.parquet"
    figures, corpus = folder / "index" / "figures.json", folder / "ingest" / "corpus.parquet"
    now = {} if hashes is None else _locked(workspace)
    for part, path in (("rows", rows), ("demos", demos), ("index", figures), ("passages", corpus)):
        stage = f"data/{path.parent.name}"
        if not path.is_file():
            data.absent[part] = f"{path} is missing"
        elif hashes is not None and (stage not in hashes or not now.get(stage, "").startswith(hashes[stage])):
            data.absent[part] = f"{stage} is not what the run was made from"
        else:
            try:
                setattr(data, part, _INPUTS[part](path))
            except (pa.ArrowInvalid, KeyError) as error:
                raise InputError(
                    f"cannot be read: {error}", where=str(path), mend=f"run `dvc repro {stage[5:]}`"
                ) from None


def _locked(workspace: Path) -> dict[str, str]:
    """DVC's hash of every output by its path."""
    path = workspace / "dvc.lock"
    stages = yaml.safe_load(path.read_text(encoding="utf-8")).get("stages", {}) if path.is_file() else {}
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", []) if "md5" in out}


def _titles(path: Path) -> dict[str, str]:
    table = pq.read_table(path, columns=["id", "title"])
    return dict(zip(table["id"].to_pylist(), table["title"].to_pylist(), strict=True))


def questions(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """RL's rows as `RunData.rows` has them."""
    found = []
    for row in rows:
        info = row["extra_info"]
        gold = [str(one) for one in info.get("gold_passage_ids") or ()]
        titles = list(info.get("supporting_titles") or ())
        first = gold[0] if gold else None
        found.append((info["id"], row["data_source"], int(info["hops"]), first, gold, titles))
    return pd.DataFrame(found, columns=["id", "data_source", "hops", "passage", "gold", "titles"])


_INPUTS: dict[str, Callable[[Path], Any]] = {
    "rows": lambda path: questions(pq.read_table(path, columns=["data_source", "extra_info"]).to_pylist()),
    "demos": lambda path: pd.read_parquet(path, columns=["chosen", "segments"]),
    "index": read_json,
    "passages": _titles,
}


def read_rollouts(folder: Path) -> pd.DataFrame | None:
    """The rollout log of all steps, or of `MOST_FILES`; lines that are not gathered yet are read as well."""
    paths = _tables(folder)
    if not paths:
        return None
    with tempfile.TemporaryDirectory() as copies:
        # Gathering is the stage's work and removes what it has read: it is done with copies here.
        for path in paths:
            if path.suffix == ".jsonl":
                shutil.copy2(path, copies)
        RolloutLog(Path(copies)).gather()
        tables = {path.name: path for path in (*_tables(Path(copies)), *paths) if path.suffix == ".parquet"}
        frames = [_read(tables[name]) for split in ("train", "validation") for name in _spread(tables, split)]
    return pd.concat(frames, ignore_index=True) if frames else None


def _read(path: Path) -> pd.DataFrame:
    try:
        found = set(pq.read_schema(path).names)
    except pa.ArrowInvalid as error:
        raise InputError(f"cannot be read: {error}", where=str(path), mend="remove it, or run `dvc repro rl`") from None
    lacking = [name for name in COLUMNS if name not in found]
    if lacking:
        raise InputError(
            f"no rollout log: there is no column {', '.join(lacking)}", where=str(path), mend="see docs/rollouts.md"
        )
    frame = pd.read_parquet(path, columns=list(COLUMNS))
    for name in ("segments", "calls", "passage_ids", "sampling"):
        for row, text in enumerate(frame[name]):
            try:
                json.loads(text)
            except (TypeError, ValueError) as error:
                what = f"row {row}, column {name}: not JSON: {error}"
                raise InputError(what, where=str(path), mend="see docs/rollouts.md") from None
    return frame


def _spread(tables: Mapping[str, Path], split: str) -> list[str]:
    names = sorted(name for name in tables if name.startswith(split))
    if len(names) <= MOST_FILES:
        return names
    return [names[number * (len(names) - 1) // (MOST_FILES - 1)] for number in range(MOST_FILES)]


def _steps(path: Path) -> list[dict[str, Any]]:
    try:
        return read_steps(path)
    except (ValueError, KeyError, TypeError) as error:
        what = f"not a step a line: {type(error).__name__}: {error}"
        raise InputError(what, where=str(path), mend='a line is {"step": 1, "data": {METRIC: VALUE}}') from None


def _of_split(frame: pd.DataFrame, split: str) -> pd.DataFrame | None:
    part = frame[frame["split"] == split].reset_index(drop=True)
    return None if part.empty else part


def _params(run: Path, workspace: Path, absent: dict[str, str]) -> Mapping[str, Any]:
    """The workspace's parameters in force; of a run under way, what it was started with goes before them."""
    path, started = workspace / "data" / "params" / "params.yaml", run / "agent.json"
    found: dict[str, Any] = {}
    if path.is_file():
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            what = f"not YAML: {' '.join(str(error).split())}"
            raise InputError(what, where=str(path), mend="run `python -m tasks.params`") from None
    else:
        absent["params"] = f"{path} is missing"
    if started.is_file():
        content = read_json(started)
        found |= {name: content[name] for name in ("retrieval", "environment", "episode", "tools") if name in content}
        found["rl"] = {**found.get("rl", {}), "mask_observations": content["mask_observations"]}
    return found


def _sanity(run: Path, data: RunData) -> Mapping[str, Any] | None:
    path, verdicts = run / "sanity.json", run / "sanity"
    if path.is_file():
        found = read_json(path)
        if lacking := [name for name in SANITY if name not in found]:
            what = f"no engine check: there is no {', '.join(lacking)}"
            raise InputError(what, where=str(path), mend="run `dvc repro rl`")
        return found
    if any(verdicts.glob("*.json")):
        return SanityCheck("", str(verdicts), 1, float(data.param("rl.sanity.max_logprob_diff", 1e-3))).summary()
    data.absent["sanity"] = f"there is no {path.name} in {run}"
    return None
