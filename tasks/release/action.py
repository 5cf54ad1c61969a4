"""The release action, the flow's last step; by hand `python -m tasks.release`. Never cached, safe to repeat.

Decided: a model that the gate released becomes a version of `forager-policy` and takes the alias `champion`,
unless it is significantly worse than the present champion on the test questions that both answered: the gate
knows thresholds alone, and a threshold once set lets every later, weaker model pass. The champion before it
keeps the alias `previous`. A rejected model moves nothing. Every decision is a line of data/release/history.jsonl;
the same decision about the same model is not written twice.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tasks import params, tracking
from tasks.contract import UPSTREAM
from tasks.errors import InputError
from tasks.files import read_json
from tasks.release import registry
from tasks.release.comparison import compare

HISTORY = Path("data/release/history.jsonl")
TRAJECTORIES = Path("data/evaluate/trajectories.parquet")
MADE_BY = {"rl": "merge", "rft": "rft"}  # the stage whose output is the candidate, by its name in the evaluation


def question_scores(path: Path, model: str) -> dict[str, float]:
    """Success by question id of a model's held-out trajectories; columns model, question_id, success."""
    if not path.is_file():
        raise InputError("no trajectories", where=str(path), mend="run `dvc repro evaluate`")
    import pandas as pd  # most runs find the champion unchanged and need none

    frame = pd.read_parquet(path, columns=["model", "question_id", "success"])
    rows = frame[frame["model"] == model]
    if rows.empty:
        raise InputError(f"no trajectories of model {model!r}", where=str(path))
    return {str(row.question_id): float(row.success) for row in rows.itertuples()}


def history() -> list[dict[str, Any]]:
    """Every decision so far."""
    if not HISTORY.is_file():
        return []
    return [json.loads(line) for line in HISTORY.read_text(encoding="utf-8").splitlines()]


def append(entry: dict[str, Any]) -> None:
    """Add a line to the history, unless it says again what the last one says."""
    last = history()[-1:]
    if last and all(last[0].get(key) == value for key, value in entry.items()):
        return
    HISTORY.parent.mkdir(parents=True, exist_ok=True)
    stamped = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry}
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(stamped, ensure_ascii=False) + "\n")


def release() -> str:
    """Carry out the gate's decision; returns what was done, in one line.

    Raises:
        InputError: the gate has not decided, or what it decided about is not there.
    """
    gate = read_json(Path("data/gate/figures.json"))
    hashes = tracking.data_hashes()
    candidate = read_json(Path("data/evaluate/figures.json"))["candidate"]
    model = Path("data", MADE_BY[candidate])
    model_hash = hashes.get(str(model))
    if model_hash is None:
        raise InputError(f"no hash of {model}", where="dvc.lock", mend=f"run `dvc repro {model.name}`")
    failed = {
        check["name"]: f"{check['name']}: {check['reason']}"
        for check in gate["checks"]
        if not check["passed"] and check["severity"] == "error"
    }
    stages = [name for name in UPSTREAM if tracking.run_id_of(name)]
    entry: dict[str, Any] = {
        "decision": gate["decision"],
        "reasons": list(failed),
        "action": "none",
        "version": None,
        "model_path": str(model),
        "model_hash": model_hash,
        "profile": params.profile_name(),
        "run_ids": {name: tracking.run_id_of(name) for name in stages},
        "hashes": hashes,
    }
    if gate["decision"] != "released":
        append(entry)
        champion = registry.by_alias(registry.CHAMPION)
        return f"rejected ({'; '.join(failed.values())}); the champion stays: {_name(champion)}"
    champion = registry.by_alias(registry.CHAMPION)
    if champion is not None and champion.tags.get("model.hash") == model_hash:
        if not any(e["version"] == champion.number for e in history()):
            # An earlier run was killed between moving the alias and writing its line.
            append({**entry, "action": "promoted", "version": champion.number})
        return f"{_name(champion)} is this model already"
    scores = question_scores(TRAJECTORIES, candidate)
    comparison = None
    if champion is not None and (before := registry.scores_of(champion)):
        comparison = compare(scores, before)
        if comparison.significantly_worse:
            append({**entry, "action": "kept champion", "reasons": [str(comparison)]})
            return f"the champion stays: {_name(champion)}; {comparison}"
    version = registry.by_hash(model_hash) or _register(entry, scores)
    registry.promote(version)
    reasons = [str(comparison)] if comparison else []
    append({**entry, "action": "promoted", "version": version.number, "reasons": reasons})
    return "; ".join([f"{_name(version)} is champion now", *reasons])


def _register(entry: dict[str, Any], scores: dict[str, float]) -> registry.Version:
    tags = {
        "model.path": entry["model_path"],
        "model.hash": entry["model_hash"],
        "profile": entry["profile"],
        "git.commit": tracking.git_commit(),
        **{f"run.{stage}": run_id for stage, run_id in entry["run_ids"].items()},
        **{f"hash.{path}": value for path, value in entry["hashes"].items()},
    }
    with tracking.release_run(entry["profile"], tags) as run:
        registry.keep_scores(run.run_id, scores)
        return registry.register(run.run_id, tags, {name: tags[name] for name in ("model.path", "model.hash")})


def _name(version: registry.Version | None) -> str:
    return f"version {version.number} of {registry.MODEL}" if version else "none"
