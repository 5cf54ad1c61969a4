"""Stage gate: every threshold against the figures of all stages; a decision with its reasons.

Decided: the gate is a pure function of figures, thresholds and what people have ticked, so DVC caches it; moving the
champion is the release action's (`python -m tasks.release`). A missing or broken figure fails its check, since a gate
that passes on what it cannot see is none. A rejected model is a result, not an error: the stage ends with code 0.
Too few questions for the interval that is asked for say nothing about the model: they are wrong parameters, code 2.

    python -m tasks.gate              the stage, as `dvc repro gate` runs it
    python -m tasks.gate --enforce    reads the decision of the last run: exit 1 when rejected, with the reasons
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.contract import UPSTREAM, Stage, main
from tasks.errors import InputError, exit_on_input_error
from tasks.files import read_json, write_json
from tasks.release import audits, gating, half_width

DECISION = Path("data/gate/decision.json")
_COLUMNS = ("name", "passed", "value", "limit", "reason", "short_by", "severity", "expression")
_SPAN = 50  # characters of the table's column of expressions


def read_steps(path: Path) -> list[dict[str, Any]]:
    """Metrics of the RL steps in their order, from lines {"step": n, "data": {metric: value}}.

    Raises:
        InputError: a line is not of that form.
    """
    steps = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
            steps.append((int(entry["step"]), dict(entry["data"])))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"no step's metrics: {error}", where=f"{path}, line {number}") from None
    return [data for _, data in sorted(steps, key=lambda step: step[0])]


def run(stage: Stage) -> dict[str, Any]:
    """Check every threshold, write data/gate/decision.json, and say each result."""
    settings = stage.params.gate
    thresholds = [
        gating.parse(name, c.expression, c.severity, UPSTREAM["gate"])
        for name, c in settings.checks.items()
        if c is not None
    ]
    figures = {name: read_json(stage.input(name, "figures.json")) for name in UPSTREAM["gate"]}
    if settings.half_width is not None:
        _require_questions(settings.half_width, figures)
    decision: dict[str, Any] = {}
    if any(threshold.reads(gating.AUDIT) for threshold in thresholds):
        decision["audit"] = figures[gating.AUDIT] = _ticks(stage, figures["evaluate"].get("audit"))
    steps = read_steps(stage.input("rl", "steps.jsonl"))
    verdicts = [gating.check(threshold, figures, steps) for threshold in thresholds]
    decision = {"decision": gating.decide(verdicts), "checks": [verdict.plain() for verdict in verdicts], **decision}
    write_json(stage.out / DECISION.name, decision)
    for check in decision["checks"]:
        numbers = {key: check[key] for key in ("value", "limit", "passed", "short_by") if check[key] is not None}
        stage.track.log_figures({f"check.{check['name']}": numbers})
    # What failed comes first, and what it says, since MLflow shows some columns and rows at a time.
    ordered = [{key: check[key] for key in _COLUMNS} for check in sorted(decision["checks"], key=lambda c: c["passed"])]
    stage.track.log_table("checks.json", ordered)
    stage.track.log_artifact(stage.out / DECISION.name)
    for line in table(decision):
        stage.say(line)
    stage.say(decision["decision"])
    return decision


def _require_questions(width: float, figures: Mapping[str, Any]) -> None:
    where, mend = "data/evaluate/figures.json", "run `dvc repro evaluate`"

    def found(*path: str) -> float:
        try:
            return gating.figure(("evaluate", *path), figures)
        except gating.NoValueError as none:
            raise InputError(str(none), where=where, mend=mend) from None

    model = figures["evaluate"].get("candidate")
    if model is None:
        raise InputError("there is no figure evaluate.candidate", where=where, mend=mend)
    success = {end: found("models", model, "success", end) for end in ("mean", "low", "high")}
    half_width.require(width, success, int(found("models", model, "n")), found("confidence"))


def _ticks(stage: Stage, sheet: Mapping[str, Any] | None) -> dict[str, Any]:
    """Figures of the audit; none where the evaluation has written no sheet."""
    if sheet is None:
        stage.say("no audit sheet: evaluate.report.audit is 0")
        return {}
    audit = audits.read(sheet["sheet"], sheet["n"])
    for path, rows in audit.others.items():
        stage.say(f"not counted: {rows} rows of {path}, which are about another sheet than {audit.sheet}")
    if audit.disputed:
        stage.say(f"disputed, and taken for hacks: rows {', '.join(map(str, sorted(audit.disputed)))}")
    return audit.figures()


def table(decision: dict[str, Any]) -> list[str]:
    """One line a check: result, name, expression, and the value, or why it failed: what is short and by how much."""
    width = max((len(check["name"]) for check in decision["checks"]), default=0)
    # A longer expression pushes its own value aside, and not everybody's.
    span = max(
        (len(check["expression"]) for check in decision["checks"] if len(check["expression"]) <= _SPAN), default=0
    )
    lines = []
    for check in decision["checks"]:
        result = "pass" if check["passed"] else "FAIL" if check["severity"] == "error" else "warn"
        value = check["reason"] if not check["passed"] else f"{check['value']:g}"
        expression = " ".join(check["expression"].split())  # YAML may leave ends of lines in it
        lines.append(f"{result}  {check['name']:{width}}  {expression:{span}}  {value}")
    return lines


def enforce() -> int:
    """Exit code of the last decision: 0 released, 1 rejected."""
    decision = read_json(DECISION)
    print("\n".join([*table(decision), f"gate: {decision['decision']}"]))
    return 0 if decision["decision"] == "released" else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--enforce"]:
        with exit_on_input_error("gate"):
            sys.exit(enforce())
    main("gate", run)
