"""Stage gate: every threshold against the figures of all stages; a decision with its reasons.

Decided: the gate is a pure function of figures and thresholds, so DVC caches it; moving the champion is the
release action's (`python -m tasks.release`). A missing or broken figure fails its check, since a gate that
passes on what it cannot see is none. A rejected model is a result, not an error: the stage ends with code 0.

    python -m tasks.gate              the stage, as `dvc repro gate` runs it
    python -m tasks.gate --enforce    reads the decision of the last run: exit 1 when rejected, with the reasons
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tasks.contract import UPSTREAM, Stage, main
from tasks.errors import InputError, exit_on_input_error
from tasks.files import read_json, write_json
from tasks.release import gating

DECISION = Path("data/gate/decision.json")


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
    checks = stage.params.gate.checks
    thresholds = [
        gating.parse(name, c.expression, c.severity, UPSTREAM["gate"]) for name, c in checks.items() if c is not None
    ]
    figures = {name: read_json(stage.input(name, "figures.json")) for name in UPSTREAM["gate"]}
    steps = read_steps(stage.input("rl", "steps.jsonl"))
    verdicts = [gating.check(threshold, figures, steps) for threshold in thresholds]
    decision: dict[str, Any] = {
        "decision": gating.decide(verdicts),
        "checks": [
            {
                "name": verdict.threshold.name,
                "expression": verdict.threshold.expression,
                "value": verdict.value,
                "passed": verdict.passed,
                "severity": verdict.threshold.severity,
                "reason": verdict.reason,
            }
            for verdict in verdicts
        ],
    }
    write_json(stage.out / DECISION.name, decision)
    for verdict in verdicts:
        numbers = {"threshold": verdict.threshold.number, "passed": verdict.passed}
        if verdict.value is not None:
            numbers["value"] = verdict.value
        stage.track.log_figures({f"check.{verdict.threshold.name}": numbers})
    stage.track.log_artifact(stage.out / DECISION.name)
    for line in table(decision):
        stage.say(line)
    stage.say(decision["decision"])
    return decision


def table(decision: dict[str, Any]) -> list[str]:
    """One line a check: result, name, expression, and the value or why there is none."""
    width = max((len(check["name"]) for check in decision["checks"]), default=0)
    span = max((len(check["expression"]) for check in decision["checks"]), default=0)
    lines = []
    for check in decision["checks"]:
        result = "pass" if check["passed"] else "FAIL" if check["severity"] == "error" else "warn"
        value = check["reason"] if check["value"] is None else f"{check['value']:g}"
        lines.append(f"{result}  {check['name']:{width}}  {check['expression']:{span}}  {value}")
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
