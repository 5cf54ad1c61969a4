"""Real `dvc repro`, without Prefect."""

from pathlib import Path

import psutil
import pytest

from flows.stage import StageError, run_stage, stage_order
from tasks.errors import InputError


def run(stage, timeout=60.0):
    lines = []
    return run_stage(stage, timeout, {}, lines.append), lines


def test_life_of_a_stage(repository):
    assert stage_order() == ["first", "merge", "gate"]
    knob = repository / "knobs/first"

    result, lines = run("first")
    assert result.state == "Ran"
    assert "first: working" in lines
    result, lines = run("first")
    assert (result.state, lines) == ("Cached", [])

    knob.write_text("wrong")
    with pytest.raises(StageError) as caught:
        run("first")
    assert (caught.value.exit_code, caught.value.is_crash) == (2, False)
    assert str(caught.value) == "first: error: row 3: broken; mend it"

    knob.write_text("crash")
    with pytest.raises(StageError, match="RuntimeError: boom") as caught:
        run("first")
    assert (caught.value.exit_code, caught.value.is_crash) == (1, True)

    knob.write_text("1")
    result, _ = run("first")
    assert result.state == "Restored"


def test_time_limit_ends_everything(repository):
    (repository / "knobs/first").write_text("hang")
    with pytest.raises(StageError, match="limit") as caught:
        run("first", timeout=8)
    assert not caught.value.is_crash
    assert not psutil.pid_exists(int(Path("grandchild").read_text()))


def test_broken_dvc_yaml_is_wrong_input(repository):
    (repository / "dvc.yaml").write_text("stages:\n  a:\n    comand: x\n")
    with pytest.raises(InputError, match=r"dvc\.yaml"):
        stage_order()
