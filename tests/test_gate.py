"""The gate stage in a workspace of its own, with MLflow in SQLite."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import gate, params
from tasks.contract import UPSTREAM
from tasks.errors import InputError
from tasks.release import gating

FIGURES = {
    "validate": {"leaked_questions": 0},
    "index": {"lowest_recall_at_3": 0.9, "lowest_mrr": 0.8, "lowest_oracle_at_3": 0.95},
    "merge": {"max_logit_diff": 0.0},
    "evaluate": {
        "candidate": "rl",
        "models": {
            "rl": {"em": {"mean": 0.71}, "format_rate": {"mean": 0.97}, "searches": {"mean": 1.4}},
        },
        "comparisons": {"rl-sft": {"em": {"mean": 0.02, "low": 0.01}}},
        "ability": {"drop": 0.01},
    },
}


def fill(root, figures=FIGURES):
    for name in UPSTREAM["gate"]:
        folder = root / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "figures.json").write_text(json.dumps(figures.get(name, {})))
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
    assert metrics["check.exact-match.limit"] == 0.6
    assert metrics["check.exact-match.passed"] == 1.0
    assert json.loads(record.tags["mlflow.loggedArtifacts"]) == [{"path": "checks.json", "type": "table"}]
    (path,) = (workspace / "mlruns/artifacts" / figures["run_id"]).rglob("checks.json")
    table = json.loads(path.read_text())
    assert table["columns"][:4] == ["name", "passed", "value", "limit"]
    assert set(table["columns"]) == set(figures["checks"][0])
    assert table["data"][0][:4] == ["exact-match", True, 0.71, 0.6]
    assert [row[0] for row in table["data"]] == list(values)


@pytest.fixture
def decide(make_stage):
    """Runs the stage over figures, with the gate's section as a test names it."""

    def run(figures=FIGURES, **section):
        stage = make_stage("gate", gate=section)
        stage.track.log_figures = lambda figures: None
        stage.track.log_table = lambda name, rows: None
        fill(Path.cwd(), figures)
        return gate.run(stage)

    return run


def error(expression):
    return {"expression": expression, "severity": "error"}


def test_rejected_with_reasons_and_enforced(decide, capsys):
    short = {"models": {"rl": {"em": {"mean": 0.15}, "format_rate": {"mean": 0.97}, "searches": {"mean": 1.4}}}}
    figures = decide({**FIGURES, "evaluate": short})
    assert figures["decision"] == "rejected"
    failed = {check["name"]: check for check in figures["checks"] if not check["passed"]}
    assert set(failed) == {"exact-match", "gain-over-sft"}
    assert failed["exact-match"]["reason"] == "0.15 is not >= 0.2, short by 0.05"
    assert failed["exact-match"]["short_by"] == pytest.approx(0.05)
    assert failed["gain-over-sft"]["reason"] == "there is no figure evaluate.comparisons"
    said = capsys.readouterr().out
    assert "0.15 is not >= 0.2, short by 0.05" in next(line for line in said.splitlines() if "exact-match" in line)
    assert "audit" not in figures
    assert gate.enforce() == 1
    said = capsys.readouterr().out
    assert "FAIL  exact-match" in said and "gate: rejected" in said
    gate.DECISION.write_text(json.dumps({"decision": "released", "checks": []}))
    assert gate.enforce() == 0


def test_figures_of_every_stage_are_read(decide):
    figures = {name: {**FIGURES.get(name, {}), "deep": {"n": 1}} for name in UPSTREAM["gate"]}
    checks = {name: error(f"{name}.deep.n == 1") for name in UPSTREAM["gate"]}
    found = decide(figures, checks=checks)
    assert found["decision"] == "released"
    assert {"ingest", "policy"} <= {check["name"] for check in found["checks"] if check["passed"]}


AUDITED = {**FIGURES, "evaluate": {**FIGURES["evaluate"], "audit": {"sheet": "sheet-1", "n": 2}}}
CHECKS = {"audit-done": error("audit.unticked == 0"), "audit-hacks": error("audit.hack_share <= 0.5")}


def test_ticks_are_read_back_when_a_check_names_them(decide, capsys):
    found = decide(AUDITED, checks=CHECKS)
    assert found["decision"] == "rejected"
    assert found["audit"] == {"n": 2, "ticked": 0, "unticked": 2, "hacks": 0, "hack_share": None, "disputed": 0}
    reasons = {check["name"]: check["reason"] for check in found["checks"]}
    assert reasons["audit-done"] == "2 is not == 0, off by 2"
    assert reasons["audit-hacks"] == "audit.hack_share is no number: None"

    Path("data/audits").mkdir()
    Path("data/audits/ann.csv").write_text("sheet,row,verdict\nsheet-1,1,ok\nsheet-1,2,hack\nsheet-0,1,hack\n")
    Path("data/audits/bob.csv").write_text("sheet;row;verdict\nsheet-1;2;ok\n")
    found = decide(AUDITED, checks=CHECKS)
    assert (found["decision"], found["audit"]["hacks"]) == ("released", 1)
    said = capsys.readouterr().out
    assert "not counted: 1 rows of data/audits/ann.csv, which are about another sheet than sheet-1" in said
    assert "disputed, and taken for hacks: rows 2" in said

    Path("data/audits/bob.csv").write_text("sheet;row;verdict\nsheet-1;2;maybe\n")
    with pytest.raises(InputError, match=r"data/audits/bob\.csv, row 2: no such verdict: 'maybe'"):
        decide(AUDITED, checks=CHECKS)
    assert decide(AUDITED)["decision"] == "released"  # no check names the audit: nothing is read


def test_without_a_sheet_nothing_passes_for_audited(decide, capsys):
    found = decide(checks=CHECKS)
    assert found["decision"] == "rejected"
    assert {c["reason"] for c in found["checks"] if "audit" in c["name"]} == {
        "there is no figure audit.unticked",
        "there is no figure audit.hack_share",
    }
    assert "no audit sheet: evaluate.report.audit is 0" in capsys.readouterr().out


def evaluated(success, **more):
    models = {"rl": {**FIGURES["evaluate"]["models"]["rl"], "success": success, "n": 300}}
    return {**FIGURES, "evaluate": {**FIGURES["evaluate"], "models": models, **more}}


def test_too_few_questions_for_the_interval_are_wrong_input(decide):
    wide, narrow = {"mean": 0.5, "low": 0.44377952, "high": 0.55622048}, {"mean": 1.0, "low": 0.9874, "high": 1.0}
    assert decide(evaluated(narrow, confidence=0.95), half_width=0.03)["decision"] == "released"
    with pytest.raises(InputError, match=r"gate\.half_width: .* on 300 questions: .* 1,064 questions are needed"):
        decide(evaluated(wide, confidence=0.95), half_width=0.03)
    with pytest.raises(InputError, match=r"there is no figure evaluate\.confidence; run `dvc repro evaluate`"):
        decide(evaluated(narrow), half_width=0.03)


def test_the_interval_is_that_of_the_model_that_would_be_released(decide):
    wide, narrow = {"mean": 0.5, "low": 0.4, "high": 0.6}, {"mean": 1.0, "low": 0.99, "high": 1.0}
    figures = evaluated(narrow, confidence=0.95, candidate="rft")
    figures["evaluate"]["models"]["rft"] = {"success": wide, "n": 100}
    with pytest.raises(InputError, match=r"gate\.half_width: success 0\.5 .* on 100 questions"):
        decide(figures, half_width=0.03)
    del figures["evaluate"]["candidate"]
    with pytest.raises(InputError, match=r"there is no figure evaluate\.candidate; run `dvc repro evaluate`"):
        decide(figures, half_width=0.03)


@pytest.mark.parametrize(
    ("success", "said"),
    [
        (None, "there is no figure evaluate.models.rl.success.mean"),
        ({"mean": 0.5, "low": 0.4}, "there is no figure evaluate.models.rl.success.high"),
        ({"mean": None, "low": None, "high": None}, "evaluate.models.rl.success.mean is no number: None"),
        ({"mean": 0.5, "low": float("nan"), "high": 0.6}, "evaluate.models.rl.success.low is nan"),
        ({"mean": 0.5, "low": 0.4, "high": "0.6"}, "evaluate.models.rl.success.high is no number: '0.6'"),
    ],
)
def test_an_interval_that_is_none_is_wrong_input(decide, success, said):
    with pytest.raises(InputError) as caught:
        decide(evaluated(success, confidence=0.95), half_width=0.03)
    assert str(caught.value) == f"data/evaluate/figures.json: {said}; run `dvc repro evaluate`"


def test_an_expression_of_several_lines_stands_in_one_line_of_the_table(decide):
    decision = decide(checks={"lines": error("validate.leaked_questions\n  == 0\n")})
    assert gate.table(decision)[-1].split() == ["pass", "lines", "validate.leaked_questions", "==", "0", "0"]


def test_every_check_of_the_production_preset_refuses_what_it_cannot_see(workspace):
    (workspace / "params/mine.yaml").write_text("extends: tiny\ngate: {preset: production}\n")
    checks = params.resolve("mine")["gate"]["checks"]
    thresholds = [gating.parse(name, c["expression"], c["severity"], UPSTREAM["gate"]) for name, c in checks.items()]
    verdicts = [gating.check(threshold, {}, []) for threshold in thresholds]
    assert not any(verdict.passed for verdict in verdicts)


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
