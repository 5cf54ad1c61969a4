"""The runs one after the other; the flow's command itself is stood in for by one that writes down its profile."""

import os
import signal
import subprocess
import sys

import pytest

from tasks import params

ALL = ["tiny", "contrast-format-only", "contrast-no-mask", "contrast-no-sft", "contrast-unshuffled"]
# Takes the place of flows/train_and_eval.py; the content of `knob` says at which profile it does what.
FLOW = """
import os, signal, sys, time
from pathlib import Path
from flows.environment import OWN_PORT
from tasks import params

class Flow:
    def main(self):
        profile = sys.argv[sys.argv.index("--profile") + 1]
        params.use_profile(profile)
        assert "--no-release" in sys.argv
        with open("ran", "a") as file:
            print(profile, "own server" if OWN_PORT else "", file=file)
        at, what = Path("knob").read_text().split() if Path("knob").exists() else ("", "")
        if profile == at and what == "fail":
            sys.exit(2)
        if profile == at and what == "late":  # the signal comes when there is no more to stop here
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.kill(os.getppid(), signal.SIGTERM)
        if profile == at and what == "hang":
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
def start(workspace):
    # A package `flows` before the project's own: its command is ours, all else is the project's.
    import flows

    package = workspace / "flows"
    package.mkdir()
    source = flows.__path__[0]
    for name in ("__init__", "environment", "contrasts"):
        (package / f"{name}.py").symlink_to(f"{source}/{name}.py")
    (package / "train_and_eval.py").write_text(FLOW)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}

    def begin():
        return subprocess.Popen(
            [sys.executable, "-m", "flows.contrasts"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        )  # fmt: skip

    return begin


def ran(workspace):
    return [line.split()[0] for line in (workspace / "ran").read_text().splitlines()]


def test_all_run_and_the_profile_in_force_is_brought_back(workspace, start):
    child = start()
    said, errors = child.communicate()
    assert child.returncode == 0, errors
    assert ran(workspace) == [*ALL, "tiny"]
    assert params.profile_name() == "tiny"
    assert "contrasts: contrast-no-mask, 3 of 5" in said
    assert (workspace / "ran").read_text().count("own server") == 6


def test_another_profile_is_put_back_and_not_run(workspace, start):
    params.use_profile("hotpotqa-smollm2-cpu")
    child = start()
    child.communicate()
    assert ran(workspace) == ALL
    assert params.profile_name() == "hotpotqa-smollm2-cpu"


def test_a_failing_run_ends_all(workspace, start):
    (workspace / "knob").write_text("contrast-no-mask fail")
    child = start()
    _, errors = child.communicate()
    assert child.returncode == 2
    assert ran(workspace) == ALL[:3]
    assert errors == "contrasts: contrast-no-mask did not complete; the same command goes on from here\n"
    assert params.profile_name() == "tiny"


@pytest.mark.parametrize("wrong", ["contrast-unshuffled", "mine"])
def test_a_wrong_profile_is_told_before_anything_runs(workspace, start, wrong):
    params.PROFILE.write_text("profile: mine\n")  # the one to be put back
    (workspace / "params/mine.yaml").write_text("")
    (workspace / f"params/{wrong}.yaml").write_text("extends: tinny")
    child = start()
    _, errors = child.communicate()
    assert child.returncode == 2
    assert errors.startswith(f"contrasts: error: params/{wrong}.yaml, extends: no profile 'tinny'")
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_reaches_the_flow_which_has_time_to_end_its_stage(workspace, start, number):
    (workspace / "knob").write_text("contrast-format-only hang")
    child = start()
    while not (workspace / "hanging").exists():
        assert child.poll() is None, child.stderr.read()
    if number == signal.SIGINT:
        os.killpg(child.pid, number)  # as a terminal does
    else:
        child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode == 128 + number
    assert (workspace / "ended").exists()
    assert ran(workspace) == ALL[:2]
    assert params.profile_name() == "tiny"


def test_a_stop_that_comes_as_a_run_completes_starts_no_other(workspace, start):
    (workspace / "knob").write_text("contrast-format-only late")
    child = start()
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert errors == "contrasts: stopped; the same command goes on from here\n"
    assert ran(workspace) == ALL[:2]
    assert params.profile_name() == "tiny"
