"""The flow as a command, with a Prefect server of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from flows.train_and_eval import time_limit, train_and_eval
from tasks import processes, tracking
from tasks.errors import InputError


def command(*arguments):
    return [sys.executable, "-m", "flows.train_and_eval", *arguments]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, env=environment())


def environment():
    # Importing flows has set Prefect's address for this process; the command is to find its own.
    return {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}


def left(workspace):
    return processes.marked_processes(workspace) + processes.marked_processes(workspace, mark="FORAGER_FLOW")


def tags_of_the_last_flow() -> dict[str, str]:
    flows = tracking.connect().search_runs(
        filter_string="tags.kind = 'flow'", order_by=["start_time DESC"], output_format="list"
    )
    return flows[0].data.tags


def test_time_limits():
    assert time_limit("rl", {"rl": {"timeout_minutes": 30}}) == 3600
    assert time_limit("index", {"index": {}}) == time_limit("other", {}) == 7200


def test_wrong_parameters_end_with_one_line_and_no_server(workspace):
    done = run("--profile", "tinny")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("train-and-eval: error: params/tinny.yaml: no profile 'tinny'; profiles are: ")
    assert not (workspace / ".prefect/prefect.db").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("rl.algoritm=dapo", "unknown key 'rl.algoritm'; did you mean 'algorithm'?"),
        ("rl.steps", "--set: 'rl.steps' is no setting; write KEY=VALUE"),
        ("verl.actor_rollout_ref.actor.entropy_coef=0.1", "did you mean 'verl.actor_rollout_ref.actor.entropy_coeff'?"),
    ],
)
def test_a_wrong_setting_ends_with_one_line_and_leaves_the_profile_in_force(workspace, setting, words):
    before = (workspace / "params/profile.yaml").read_text()
    done = run("--set", setting)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and words in done.stderr
    assert (workspace / "params/profile.yaml").read_text() == before


@pytest.mark.slow
def test_settings_lie_over_the_profile_for_one_run(repository):
    done = run("--no-release", "--set", "rl.algorithm=dapo", "--set", "rl.no_loss_on=[length]", "--set", "seed=1")
    assert done.returncode == 0, done.stderr
    assert "over the profile: rl.algorithm=dapo" in done.stdout
    assert yaml.safe_load((repository / "params/profile.yaml").read_text()) == {
        "profile": "tiny", "set": {"rl": {"algorithm": "dapo", "no_loss_on": ["length"]}, "seed": 1},
    }  # fmt: skip
    assert {key: value for key, value in tags_of_the_last_flow().items() if key.startswith("set.")} == {
        "set.rl.algorithm": "dapo", "set.rl.no_loss_on": '["length"]', "set.seed": "1",
    }  # fmt: skip

    done = run("--no-release")
    assert done.returncode == 0
    assert "over the profile" not in done.stdout
    assert yaml.safe_load((repository / "params/profile.yaml").read_text()) == {"profile": "tiny"}


def test_settings_of_a_deployment_are_keys_with_values(workspace):
    with pytest.raises(InputError, match="settings: must be keys with values, got 'seed=1'"):
        train_and_eval.fn(settings="seed=1")


@pytest.mark.slow
def test_rejected_then_cached_then_failing(repository):
    done = run()
    assert done.returncode == 0, done.stderr
    assert "rejected: failed x" in done.stdout
    assert json.loads((repository / "data/release/history.jsonl").read_text())["decision"] == "rejected"

    done = run()
    assert done.returncode == 0
    assert done.stdout.count("Cached") == 3

    (repository / "knobs/merge").write_text("wrong")
    done = run()
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "merge: error: row 3: broken; mend it"
    assert "Traceback" not in done.stderr
    assert not left(repository)


@pytest.mark.slow
def test_without_release_the_decision_is_recorded_and_nothing_is_released(repository):
    done = run("--no-release")
    assert done.returncode == 0, done.stderr
    assert "rejected: failed x" in done.stdout
    assert "error: x: `a.b >= 1`: 0.5 is not >= 1, short by 0.5" in " ".join(done.stdout.split())
    assert not (repository / "data/release").exists()
    tags = tags_of_the_last_flow()
    assert tags["profile"] == "tiny" and tags["decision"] == "rejected"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_leaves_nothing_or_is_cleaned_up(repository, number):
    (repository / "knobs/merge").write_text("hang")
    flow = subprocess.Popen(command(), stdout=subprocess.DEVNULL, env=environment())
    limit = time.monotonic() + 120
    while not (repository / "grandchild").exists():
        assert time.monotonic() < limit
        time.sleep(0.2)
    flow.send_signal(number)
    flow.wait(60)
    if number == signal.SIGKILL:
        assert left(repository)
        (repository / "knobs/merge").write_text("1")
        done = run()
        assert done.returncode == 0
        assert "that an earlier, killed run had left" in done.stdout
    assert not left(repository)
    assert not psutil.pid_exists(int((repository / "grandchild").read_text()))
    runs = tracking.connect().search_runs(order_by=["start_time ASC"], output_format="list")
    assert runs[0].info.status == ("FAILED" if number == signal.SIGTERM else "RUNNING")
