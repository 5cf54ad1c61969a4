"""The gate stage in a workspace of its own, with MLflow in SQLite."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import gate
from tasks.contract import UPSTREAM
from tasks.errors import InputError

FIGURES = {
    "validate": {"leaked_questions": 0},
    "index": {"lowest_recall_at_3": 0.9, "lowest_mrr": 0.8, "lowest_oracle_at_3": 0.95},
    "merge": {"max_logit_diff": 0.0},
    "evaluate": {
        "models": {
            "rl": {"em": {"mean": 0.71}, "format_rate": {"mean": 0.97}, "searches": {"mean": 1.4}},
        },
        "comparisons": {"rl-sft": {"em": {"mean": 0.02, "low": 0.01}}},
    },
}


def fill(root):
    for name in UPSTREAM["gate"]:
        folder = root / "data" / name
        folder.mkdir(parents=True)
        (folder / "figures.json").write_text(json.dumps(FIGURES.get(name, {})))
    lines = [{"step": step, "data": {"actor/entropy": 1.0 / step}} for step in (2, 1, 3)]
    (root / "data/rl/steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "tasks.gate", *arguments], capture_output=True, text=True)


def test_whole_stage_with_mlflow(workspace):
    fill(workspace)
    subprocess.run([sys.executable, "-m", "tasks.params"], check=True, capture_output=True)
    done = run()
    assert done.returncode == 0, done.stderr
    figures = json.loads((workspace / "metrics/gate.json").read_text())
    assert figures["decision"] == "released"
    values = {check["name"]: check["value"] for check in figures["checks"]}
    assert values["exact-match"] == 0.71
    assert values["entropy"] == pytest.approx(1 / 3)  # the last by step number, not by line

    from tasks import tracking

    record = tracking.find_run(figures["run_id"])
    assert record is not None
    assert (record.status, record.name) == ("FINISHED", "gate")
    metrics = tracking.connect().get_run(figures["run_id"]).data.metrics
    assert metrics["check.exact-match.value"] == 0.71
    assert metrics["check.exact-match.threshold"] == 0.6
    assert metrics["check.exact-match.passed"] == 1.0


def test_rejected_with_reasons_and_enforced(make_stage, capsys):
    stage = make_stage("gate")
    fill(Path.cwd())
    stage.track.log_figures = lambda figures: None
    Path("data/evaluate/figures.json").write_text("{}")
    figures = gate.run(stage)
    assert figures["decision"] == "rejected"
    failed = {check["name"]: check["reason"] for check in figures["checks"] if not check["passed"]}
    assert set(failed) == {"exact-match", "gain-over-sft", "format", "searches"}
    assert failed["exact-match"] == "there is no figure evaluate.models"
    assert "FAIL  exact-match" in capsys.readouterr().out
    assert gate.enforce() == 1
    assert "gate: rejected" in capsys.readouterr().out
    gate.DECISION.write_text(json.dumps({"decision": "released", "checks": []}))
    assert gate.enforce() == 0


def test_enforce_without_a_decision_is_wrong_input(workspace):
    done = run("--enforce")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "data/gate/decision.json" in done.stderr


def test_broken_step_line_is_named(tmp_path):
    path = tmp_path / "steps.jsonl"
    path.write_text('{"step": 1, "data": {}}\n{"step": 2}\n')
    with pytest.raises(InputError, match=r"line 2"):
        gate.read_steps(path)
