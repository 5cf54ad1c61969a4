"""What a kill at any moment leaves behind, and what is made of it."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.trajectory import Trajectory
from tasks.training.checkpoints import TRACKER, RunFolder, healthy_checkpoints
from tasks.training.rollouts import RolloutLog, append
from tasks.training.steps import read_steps


def steps_of(path: Path) -> list[int]:
    return [step["step"] for step in read_steps(path)]


class Run:
    """A run as verl writes it: save a checkpoint, then the tracker, then log the step."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)

    def save(self, step: int) -> None:
        (self.folder.checkpoint(step) / "actor").mkdir(parents=True)
        (self.folder.checkpoint(step) / "actor" / "weights").write_text("w")

    def track(self, step: int) -> None:
        (self.folder.checkpoints / TRACKER).write_text(str(step))

    def log(self, step: int) -> None:
        with self.folder.live_steps.open("ab") as file:
            file.write(json.dumps({"step": step, "data": {"x": step}}).encode() + b"\n")

    def roll(self, step: int, cut: int | None = None) -> None:
        trajectory = Trajectory(f"q{step}", "search", "made", "Who?", ["é"], 1, [1])
        append(self.folder.rollouts, trajectory, step=step, split="train", sample=0)
        if cut is not None:
            (path,) = self.folder.rollouts.glob(f"train_{step:05d}.*.jsonl")
            path.write_bytes(path.read_bytes()[:cut])

    def rollouts(self) -> list[int]:
        log = RolloutLog(self.folder.rollouts)
        log.gather()
        return [int(pd.read_parquet(path)["step"][0]) for path in sorted(self.folder.rollouts.iterdir())]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "checkpoints" / "f")
    for step in (1, 2, 3):
        run.roll(step)
        if step == 2:
            run.save(2)
            run.track(2)
        run.log(step)
    return run


def test_rewinds_to_the_last_saved_step(run: Run) -> None:
    assert run.folder.rewind() == 2
    assert steps_of(run.folder.steps) == [1, 2]
    assert not run.folder.live_steps.exists()
    assert run.rollouts() == [1, 2]
    assert run.folder.saved() == [2]


def test_killed_between_save_and_log(run: Run) -> None:
    run.save(4)
    run.track(4)
    assert run.folder.rewind() == 2
    assert not run.folder.checkpoint(4).exists()
    assert (run.folder.checkpoints / TRACKER).read_text() == "2"


def test_killed_while_saving(run: Run) -> None:
    run.save(4)
    assert run.folder.saved() == [2]
    assert run.folder.rewind() == 2
    assert not run.folder.checkpoint(4).exists()


def test_killed_in_the_middle_of_a_rollouts_line(run: Run) -> None:
    run.roll(4, cut=40)
    assert run.folder.rewind() == 2
    assert run.rollouts() == [1, 2]


@pytest.mark.parametrize("tracker", [None, ""])
def test_without_a_tracker_nothing_is_saved(run: Run, tracker: str | None) -> None:
    path = run.folder.checkpoints / TRACKER
    path.unlink() if tracker is None else path.write_text(tracker)
    assert run.folder.rewind() == 0
    assert not run.folder.checkpoint(2).exists()
    assert not path.exists()
    assert steps_of(run.folder.steps) == [] and run.rollouts() == []


def test_new_folder_starts_at_0(tmp_path: Path) -> None:
    assert RunFolder(tmp_path / "new").rewind() == 0


def test_second_start_appends_to_the_first(run: Run) -> None:
    run.folder.rewind()
    for step in (2, 3, 4):  # verl validates, and logs, the step it resumes from once more
        run.log(step)
    run.save(4)
    run.track(4)
    assert run.folder.rewind() == 4
    assert steps_of(run.folder.steps) == [1, 2, 3, 4]
    assert run.folder.saved() == [2, 4]


def test_rewinding_again_changes_nothing(run: Run) -> None:
    run.folder.rewind()
    before = {path: path.read_bytes() for path in run.folder.path.rglob("*") if path.is_file()}
    assert run.folder.rewind() == 2
    assert before == {path: path.read_bytes() for path in run.folder.path.rglob("*") if path.is_file()}


def test_removed_folder_is_gone_and_a_kill_on_the_way_leaves_no_half(run: Run, monkeypatch) -> None:
    def killed(path: Path, **kwargs) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tasks.training.checkpoints.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            run.folder.remove()
    assert not run.folder.path.exists()
    again = RunFolder(run.folder.path)
    assert again.rewind() == 0
    again.remove()
    assert list(run.folder.path.parent.iterdir()) == []


EVENTS = ("roll", "save", "track", "log")


@given(st.integers(1, 3), st.integers(0, 50), st.integers(0, 50))
def test_after_a_kill_at_any_event_the_folder_is_that_of_its_last_whole_step(
    tmp_path_factory, every: int, first_kill: int, second_kill: int
) -> None:
    run = Run(tmp_path_factory.mktemp("run") / "f")
    done = 0
    for kill in (first_kill, second_kill):
        events = [(step, event) for step in range(done + 1, 10) for event in EVENTS]
        finished = done
        for step, event in events[:kill]:
            if event == "roll":
                run.roll(step)
            elif event == "log":
                run.log(step)
                finished = step if step % every == 0 else finished
            elif step % every == 0:
                run.save(step) if event == "save" else run.track(step)
        run.roll(10, cut=kill % 20)
        done = run.folder.rewind()
        assert done == finished
        assert steps_of(run.folder.steps) == list(range(1, done + 1))
        assert run.rollouts() == list(range(1, done + 1))
        assert run.folder.saved() == [step for step in range(1, done + 1) if step % every == 0]


def test_a_checkpoint_is_healthy_that_is_no_worse_than_the_start_after_finite_steps() -> None:
    success = {0: 0.4, 2: 0.4, 4: 0.39, 6: 0.9, 8: 0.9}
    steps = [{"step": step, "data": {"actor/entropy": 0.1} if step else {"val": 1.0}} for step in range(9)]
    assert healthy_checkpoints([2, 4, 6, 8], steps, success) == [2, 6, 8]
    assert healthy_checkpoints([8, 4], steps, success) == [8]
    steps[7]["data"]["actor/entropy"] = float("nan")
    assert healthy_checkpoints([2, 4, 6, 8], steps, success) == [2, 6]
    assert healthy_checkpoints([2], steps, {0: 0.0, 2: 0.0}) == []
