"""The runs one after the other; the flow's command itself is stood in for by one that writes down its settings."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import ablations, arm_sources
from tasks import params, tracking
from tasks.params import arms

# Takes the place of flows/train_and_eval.py; the content of `knob` says at which arm it does what.
FLOW = """
import json, os, signal, sys, time
from pathlib import Path
from flows.environment import OWN_PORT
from tasks import params, tracking

class Flow:
    def main(self):
        profile = sys.argv[sys.argv.index("--profile") + 1]
        given = [word for before, word in zip(sys.argv, sys.argv[1:]) if before == "--set"]
        params.use_profile(profile, params.parse_settings(given))
        assert "--no-release" in sys.argv
        environment = {name: os.environ.get(name) for name in (tracking.PARENT_RUN, tracking.EXPERIMENT)}
        tags = json.loads(os.environ.get(tracking.FLOW_TAGS, "{}"))
        sources = sorted(path.name for path in Path("data/sources").rglob("*.jsonl"))
        entry = {"profile": profile, "set": params.settings_in_force(), "own": OWN_PORT is not None, "tags": tags}
        with open("ran", "a") as file:
            print(json.dumps({**entry, "sources": sources, **environment}), file=file)
        at, what = Path("knob").read_text().split() if Path("knob").exists() else ("", "")
        if tags.get("arm") == at and what == "fail":
            sys.exit(2)
        if tags.get("arm") == at and what == "late":  # the signal comes when there is no more to stop here
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.kill(os.getppid(), signal.SIGTERM)
        if tags.get("arm") == at and what == "hang":
            signal.signal(signal.SIGTERM, self.stop)
            signal.signal(signal.SIGINT, self.stop)
            Path("hanging").touch()
            time.sleep(60)
    def stop(self, number, frame):
        time.sleep(1)  # ending a stage takes its time
        Path("ended").touch()
        sys.exit(130 if number == signal.SIGINT else 143)
Flow().main()
"""


@pytest.fixture
def start(workspace, mlflow_tables):
    # A package `flows` before the project's own: its command is ours, all else is the project's.
    import flows

    package = workspace / "flows"
    package.mkdir()
    source = flows.__path__[0]
    for name in ("__init__", "environment", "children", "arm_sources", "ablations"):
        (package / f"{name}.py").symlink_to(f"{source}/{name}.py")
    (package / "train_and_eval.py").write_text(FLOW)
    shutil.copytree(mlflow_tables, workspace / "mlruns")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}

    def begin(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "flows.ablations", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        )  # fmt: skip

    return begin


def ran(workspace):
    return [json.loads(line) for line in (workspace / "ran").read_text().splitlines()]


def names(workspace):
    return [(entry["tags"].get("arm"), entry["tags"].get("seed")) for entry in ran(workspace)]


def test_every_arm_runs_with_every_seed_below_one_run_and_the_profile_in_force_is_brought_back(workspace, start):
    child = start("--seeds", "0,1", "--arms", "dapo,no-mask")
    said, errors = child.communicate()
    assert child.returncode == 0, errors
    each = ["baseline", "dapo", "no-mask"]
    assert names(workspace) == [(arm, seed) for seed in "01" for arm in each] + [(None, None)]
    assert "ablations: no-mask, seed 0: 3 of 6\n" in said
    *inside, after = ran(workspace)
    assert [entry["set"] for entry in inside[:3]] == [
        {"seed": 0},
        {"seed": 0, "rl": {"algorithm": "dapo"}},
        {"seed": 0, "rl": {"mask_observations": False}},
    ]
    above = tracking.latest_ablation()
    assert above is not None and above.tags["arms"] == ",".join(each) and above.tags["seeds"] == "0,1"
    assert {entry[tracking.PARENT_RUN] for entry in inside} == {above.run_id}
    assert {entry[tracking.EXPERIMENT] for entry in inside} == {"ablations"}
    assert all(entry["own"] for entry in inside)
    # tiny is the baseline with seed 0: it is brought back, and is no part of the ablation.
    assert (after["set"], after[tracking.PARENT_RUN], after[tracking.EXPERIMENT]) == ({}, None, "")
    assert (params.profile_name(), params.settings_in_force()) == ("tiny", {})


def test_another_profile_is_put_back_with_its_settings_and_not_run(workspace, start):
    params.use_profile("hotpotqa-smollm2-cpu", {"rl": {"steps": 3}})
    child = start("--seeds", "4", "--arms", "baseline")
    child.communicate()
    assert names(workspace) == [("baseline", "4")]
    assert (params.profile_name(), params.settings_in_force()) == ("hotpotqa-smollm2-cpu", {"rl": {"steps": 3}})


def test_a_failing_run_ends_all_and_is_no_finished_ablation(workspace, start):
    (workspace / "knob").write_text("dapo fail")
    child = start("--arms", "dapo,gspo")
    _, errors = child.communicate()
    assert child.returncode == 2
    assert names(workspace) == [("baseline", "0"), ("dapo", "0")]
    assert errors == "ablations: dapo, seed 0 did not complete; the same command goes on from here\n"
    assert (params.profile_name(), params.settings_in_force()) == ("tiny", {})
    assert tracking.latest_ablation() is None


def test_a_seed_is_run_once_however_often_it_is_written():
    assert ablations._seeds("0, 1,00,1") == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--arms", "dappo"], "params/ablations: no arm 'dappo'; did you mean 'dapo'?"),
        (["--seeds", "0,one"], "--seeds: '0,one' are no whole numbers; write --seeds 0,1,2"),
        (["--arms", "broken"], "--set over params/tiny.yaml"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(workspace, monkeypatch, capsys, arguments, line):
    (workspace / "params/ablations/broken.yaml").write_text("# Teaches: nothing.\nrl: {stepz: 3}")
    monkeypatch.setattr(sys, "argv", ["ablations", *arguments])
    assert ablations.main() == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"ablations: error: {line}") and errors.count("\n") == 1
    assert not (workspace / "mlruns").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_reaches_the_flow_which_has_time_to_end_its_stage(workspace, start, number):
    (workspace / "knob").write_text("dapo hang")
    child = start("--arms", "dapo,gspo")
    while not (workspace / "hanging").exists():
        assert child.poll() is None, child.stderr.read()
    if number == signal.SIGINT:
        os.killpg(child.pid, number)  # as a terminal does
    else:
        child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode == 128 + number
    assert (workspace / "ended").exists()
    assert names(workspace) == [("baseline", "0"), ("dapo", "0")]
    assert params.profile_name() == "tiny"


def test_a_stop_that_comes_as_a_run_completes_starts_no_other(workspace, start):
    (workspace / "knob").write_text("dapo late")
    child = start("--arms", "dapo,gspo")
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert errors == "ablations: stopped; the same command goes on from here\n"
    assert names(workspace) == [("baseline", "0"), ("dapo", "0")]


def test_few_questions_are_drawn_for_their_arm_and_gone_afterwards(workspace, start):
    rows = [{"extra_info": {"id": f"q{n}"}} for n in range(200)]
    (workspace / "data/demos").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), workspace / "data/demos/left.parquet")
    child = start("--arms", "limr", "--seeds", "0")
    said, errors = child.communicate()
    # The run that limr is selected from has left no rollouts here.
    assert child.returncode == 2
    assert "select: error: " in errors and "limr, seed 0 did not complete" in errors
    assert "few: 80 of 200 questions, 4 epochs: data/sources/ablations/few.jsonl" in said
    assert [(entry["tags"]["arm"], entry["sources"]) for entry in ran(workspace)] == [
        ("baseline", []),
        ("few", ["few.jsonl"]),
    ]
    assert not (workspace / "data/sources/ablations").exists()


def test_every_arm_finds_the_sources_that_it_found_the_last_time(workspace):
    def made(arm):
        for *_, out in arm_sources.commands(arm):
            Path(out).parent.mkdir(parents=True, exist_ok=True)
            Path(out).touch()
        return sorted(path.stem for path in arm_sources.FOLDER.glob("*"))

    order = [arm.name for arm in arms.read(arms.names())]
    for _ in range(2):  # the second time over what a stopped command has left
        found = {arm: made(arm) for arm in order}
        assert found["few"] == ["few"]
        assert found["limr"] == found["random"] == ["few", "limr", "random"]
        assert all(found[arm] == [] for arm in order if arm not in arms.SELECTION)
        made("few")


def test_the_list_says_what_each_teaches_and_runs_nothing(workspace, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ablations", "--list"])
    assert ablations.main() == 0
    said = capsys.readouterr().out
    for arm in arms.read(arms.names()):
        assert f"{arm.name} " in said and arm.teaches in said
    assert not (workspace / "mlruns").exists()
