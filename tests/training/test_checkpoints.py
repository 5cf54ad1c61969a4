"""What a kill at any moment leaves behind, and what is made of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.training.checkpoints import TRACKER, RunFolder
from tasks.training.steps import read_steps


def steps_of(path: Path) -> list[int]:
    return [step["step"] for step in read_steps(path)]


def rollout(step: int, text: str = "a") -> bytes:
    return json.dumps({"step": step, "text": text}, ensure_ascii=False).encode() + b"\n"


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

    def roll(self, content: bytes, worker: int = 1) -> None:
        with (self.folder.rollouts / f"{worker}.jsonl").open("ab") as file:
            file.write(content)

    def rollouts(self) -> list[int]:
        paths = sorted(self.folder.rollouts.glob("*.jsonl"))
        return [json.loads(line)["step"] for path in paths for line in path.read_bytes().split(b"\n") if line]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "checkpoints" / "f")
    for step in (1, 2, 3):
        run.roll(rollout(step))
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


@pytest.mark.parametrize("cut", [-1, -3, -4, 5])
def test_killed_in_the_middle_of_a_rollouts_line(run: Run, cut: int) -> None:
    # -3 cuts inside of a character of two bytes.
    run.roll(rollout(2, "caf\u00e9")[:cut], worker=2)
    assert run.folder.rewind() == 2
    assert run.rollouts() == [1, 2]


def test_rollouts_keep_characters_that_some_readers_take_for_line_ends(run: Run) -> None:
    text = "a\u2028b\u0085c\x0bd\r\n"
    run.roll(rollout(2, text), worker=2)
    run.folder.rewind()
    kept = (run.folder.rollouts / "2.jsonl").read_bytes()
    assert json.loads(kept)["text"] == text


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
                run.roll(rollout(step, "é"))
            elif event == "log":
                run.log(step)
                finished = step if step % every == 0 else finished
            elif step % every == 0:
                run.save(step) if event == "save" else run.track(step)
        run.roll(rollout(9, "é")[: kill % 20])
        done = run.folder.rewind()
        assert done == finished
        assert steps_of(run.folder.steps) == list(range(1, done + 1))
        assert run.rollouts() == list(range(1, done + 1))
        assert run.folder.saved() == [step for step in range(1, done + 1) if step % every == 0]
