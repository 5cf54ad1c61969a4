"""What every stage keeps to, shown by a stage that is run as a child process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tasks import tracking
from tasks.contract import SECTIONS, UPSTREAM, _alone
from tasks.errors import InputError
from tasks.files import write_json

ROOT = Path(__file__).parents[1]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def test_every_stage_is_in_dvc_yaml():
    assert set(STAGES) == {"params", *SECTIONS} == {"params", *UPSTREAM}
    for name in SECTIONS:
        assert STAGES[name]["cmd"] == f"python -m tasks.{name}"
        assert f"data/{name}" in str(STAGES[name]["outs"])
        assert f"metrics/{name}.json" in str(STAGES[name]["metrics"])


@pytest.mark.parametrize("name", SECTIONS)
def test_stage_reads_what_dvc_yaml_says(name):
    stage = STAGES[name]
    upstream = {path.split("/")[1] for path in stage["deps"] if path.startswith("data/")} - {"sources"}
    assert upstream == set(UPSTREAM[name])
    keys = {key.split(".")[0] for entry in stage["params"] for group in entry.values() for key in group}
    assert keys == set(SECTIONS[name])


PROGRAM = """
import sys, time
from pathlib import Path
from tasks import contract
from tasks.errors import InputError

def run(stage):
    (stage.out / "half").write_text("half")
    mode = Path("mode").read_text()
    stage.say(mode)
    if mode == "wrong":
        raise InputError("broken", where="row 3", mend="mend it")
    if mode == "crash":
        raise RuntimeError("boom")
    if mode == "hang":
        time.sleep(60)
    return {"n": 3, "nested": {"x": 0.5}}

contract.main("merge", run)
"""


@pytest.fixture
def stage(workspace):
    (workspace / "program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "-m", "tasks.params"], check=True, capture_output=True)

    def start(mode):
        (workspace / "mode").write_text(mode)
        return subprocess.Popen(
            [sys.executable, "program.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def statuses():
    found = tracking.connect().search_runs(order_by=["start_time ASC"], output_format="list")
    return [run.info.status for run in found]


def test_ends_of_a_stage(workspace, stage):
    child = stage("crash")
    _, errors = child.communicate()
    assert child.returncode == 1
    assert "RuntimeError: boom" in errors
    assert [path.name for path in (workspace / "data").iterdir()] == ["params"]
    assert not (workspace / "metrics").exists()

    child = stage("good")
    _, errors = child.communicate()
    assert child.returncode == 0, errors
    assert json.loads((workspace / "data/merge/figures.json").read_text()) == {"n": 3, "nested": {"x": 0.5}}
    run_id = json.loads((workspace / "metrics/merge.json").read_text())["run_id"]
    assert tracking.connect().get_run(run_id).data.metrics == {"n": 3.0, "nested.x": 0.5}

    child = stage("wrong")
    _, errors = child.communicate()
    assert child.returncode == 2
    assert errors == "merge: error: row 3: broken; mend it\n"

    child = stage("hang")
    assert "hang" in child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 143

    assert statuses() == ["FAILED", "FINISHED", "FAILED", "FAILED"]
    # The good outputs stay whole, and nothing half-written is left.
    assert sorted(path.name for path in (workspace / "data").iterdir()) == ["merge", "params"]
    assert (workspace / "data/merge/figures.json").exists()


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_second_stage_is_refused_while_one_is_at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hold = (
        "import time; from tasks.contract import _alone\nwith _alone('rl'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=rf"stage rl is at work in this folder \(pid {holder.pid}\)"), _alone("gate"):
        pass
    holder.kill()
    holder.wait()
    with _alone("gate"):
        assert (tmp_path / ".forager/stage.lock").read_text() == f"{os.getpid()} {os.getppid()} gate"
