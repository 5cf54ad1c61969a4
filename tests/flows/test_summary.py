import json

import pytest

from flows.stage import Result
from flows.summary import Summary, clock, shown
from tasks import tracking


def test_summary_says_all(workspace, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    with tracking.stage_run("evaluate", {}, "tiny", ()) as run:
        pass
    scores = {"mean": 0.3125, "low": 0.25, "high": 0.375}
    model = {"em": scores, "f1": scores, "format_rate": {"mean": 1.0}, "searches": {"mean": 1.5}, "n": 300}
    figures = {"models": {"base": {"em": {"mean": None}}, "rl": model}, "run_id": run.run_id}
    (workspace / "metrics").mkdir()
    (workspace / "metrics/evaluate.json").write_text(json.dumps(figures))
    (workspace / "data/evaluate").mkdir(parents=True)
    (workspace / "data/evaluate/report.html").touch()
    check = {"name": "format", "expression": "evaluate.x >= 1", "value": 0.9, "passed": False, "severity": "error"}
    check["reason"] = "0.9 is not >= 1, short by 0.1"
    decision = {"decision": "rejected", "checks": [check, {**check, "name": "good", "passed": True}]}
    results = [Result("ingest", "Ran", 75.0), Result("evaluate", "Cached", 0.1)]

    summary = Summary.collect(results, 80.0, decision, "abc", {})
    assert summary.lines[1].earlier is not None
    assert summary.reason() == "rejected: failed format"
    summary.show()
    text = capsys.readouterr().out
    assert "1 min 15 s" in text
    assert "0.312 [0.250, 0.375]" in text
    assert "error: format: `evaluate.x >= 1`: 0.9 is not >= 1, short by 0.1" in text
    assert "- error: format: `evaluate.x >= 1`: 0.9 is not >= 1, short by 0.1" in summary.markdown()
    assert "good" not in text
    assert "data/evaluate/report.html" in text
    assert "| rl | 300 | 0.312 [0.250, 0.375] |" in summary.markdown()
    assert [row["state"] for row in summary.rows()] == ["Ran", "Cached"]


def at(em: float, searches: float) -> dict[str, float]:
    return {"em": em, "searches": searches, "n": 50}


def climb(workspace, validation: dict) -> Summary:
    (workspace / "metrics").mkdir(exist_ok=True)
    (workspace / "metrics/rl.json").write_text(json.dumps({"steps": 12, "validation": validation}))
    return Summary.collect([], 1.0, None, "abc", {})


def test_the_climb_has_a_row_a_kind_and_a_column_a_validation(workspace, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    steps = {
        "12": {"one-hop": at(1.0, 1.0), "two-hop": at(0.9, 2.04), "all": at(0.95, 1.5)},
        "4": {"one-hop": at(0.975, 1.0), "all": at(0.975, 1.0)},
        "0": {"one-hop": at(0.98, 1.0), "two-hop": at(0.12, 1.0), "all": at(0.5, 1.0)},
    }
    summary = climb(workspace, steps)
    assert summary.climb(80) == [
        ("questions", "step 0", "step 4", "step 12"),
        ("one-hop", ".98 (1.0)", ".97 (1.0)", "1.00 (1.0)"),
        ("two-hop", ".12 (1.0)", "-", ".90 (2.0)"),
        ("all", ".50 (1.0)", ".97 (1.0)", ".95 (1.5)"),
    ]
    summary.show()
    text = capsys.readouterr().out
    assert "The climb: exact match on validation questions during RL (searches a question)" in text
    assert ".12 (1.0)" in text and ".90 (2.0)" in text
    assert "| two-hop | .12 (1.0) | - | .90 (2.0) |" in summary.markdown()


@pytest.mark.parametrize(("width", "shown"), [(20, 2), (40, 2), (60, 4), (80, 6), (200, 17), (1000, 41)])
def test_of_many_validations_as_many_as_fit_are_shown_with_the_first_and_the_last(
    workspace, capsys, monkeypatch, width, shown
):
    monkeypatch.setenv("COLUMNS", str(width))
    steps = {str(step): {"comparison": at(0.5, 1.0), "all": at(0.5, 1.0)} for step in range(0, 205, 5)}
    summary = climb(workspace, steps)
    heading, *rows = summary.climb(width)
    assert heading[1] == "step 0" and heading[-1] == "step 200" and len(set(heading)) == 1 + shown
    assert [row[0] for row in rows] == ["comparison"]
    summary.show()
    if width >= 40:  # on one line, and nothing broken
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("comparison"))
        assert line.count(".50 (1.0)") == shown


def test_wide_figures_leave_room_for_fewer_validations(workspace):
    steps = {str(step): {"comparison": at(1.0, 1.0), "all": at(1.0, 1.0)} for step in range(0, 12, 2)}
    heading, _ = climb(workspace, steps).climb(80)
    assert len(heading) == 6


def test_the_first_validation_alone_is_shown(workspace):
    assert climb(workspace, {"0": {"nq": at(0.5, 1.0)}}).climb(80) == [("questions", "step 0"), ("nq", ".50 (1.0)")]


def test_without_validations_there_is_no_climb(workspace, capsys):
    summary = Summary.collect([], 1.0, None, "abc", {})
    summary.show()
    assert summary.climb(80) == [] and "climb" not in capsys.readouterr().out + summary.markdown()


def test_dag_without_a_gate(workspace):
    assert "no gate" in Summary.collect([], 1.0, None, "abc", {}).reason()


def test_numbers_in_few_characters():
    assert [shown(x) for x in (1234567, True, 0.00001234, "bfloat16")] == ["1,234,567", "yes", "1.23e-05", "bfloat16"]
    assert [clock(x) for x in (3.21, 60.0, 3599.9)] == ["3.2 s", "1 min 00 s", "59 min 59 s"]


def test_what_was_set_over_the_profile_is_named(workspace, capsys):
    summary = Summary.collect([], 1.0, None, "abc", {"rl.algorithm": "dapo", "seed": "1"})
    summary.show()
    assert "over the profile: rl.algorithm=dapo, seed=1" in capsys.readouterr().out
    assert "`over the profile: rl.algorithm=dapo, seed=1`" in summary.markdown()
