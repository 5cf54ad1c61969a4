import json
from pathlib import Path

import pytest

from tasks.agent.trajectory import Trajectory
from tasks.training import sft_process, sft_run
from tasks.training.checkpoints import TRACKER, RunFolder
from tasks.training.sft_run import Verdict, judge

SAMPLES = 4


@pytest.fixture(scope="module")
def sft(defaults):
    settings = {"check_samples": SAMPLES, "format_rate": 0.75, "success_rate": 0.25, "patience": 2}
    return defaults.sft.model_copy(update={**settings, "max_steps": 40, "check_every": 10})


def sampled(*groups: str) -> list[Trajectory]:
    """One letter an episode: s succeeds, f is in form but wrong, x is not in form."""
    return [
        Trajectory("q", "search", "made", "Q?", ["a"], 1, [1], success=float(letter == "s"), format_valid=letter != "x")
        for group in groups
        for letter in group
    ]


def test_rates_by_hand(sft) -> None:
    verdict = judge(10, [2.0], sampled("sfxx", "xxxx"), sft)
    assert verdict == Verdict(10, 2.0, 0.25, 0.125, pass_at_4=0.5)


@pytest.mark.parametrize(
    ("groups", "stop"),
    [
        (("sfff", "sfxx"), "targets met: 75% in form, 25% succeed"),
        (("sfff", "sxxx"), None),  # in form too seldom
        (("sfff", "ffff"), None),  # succeeds too seldom
    ],
)
def test_stops_when_both_targets_are_met(sft, groups: tuple[str, ...], stop: str | None) -> None:
    assert judge(10, [2.0], sampled(*groups), sft).stop == stop


@pytest.mark.parametrize(
    ("losses", "flat"),
    [
        ([2.0, 2.0], False),  # fewer checks than patience and one before
        ([2.0, 2.0, 2.0], True),
        ([2.0, 2.1, 1.9], False),
        ([2.0, 1.9, 1.95], False),
        ([3.0, 2.0, 2.1, 2.2], True),
        ([2.0, 1.0, 1.5, 1.0], True),  # as low as before is not lower
        ([2.0, 1.0, 1.5, 0.9], False),
    ],
)
def test_stops_when_the_evaluation_loss_is_flat(sft, losses: list[float], flat: bool) -> None:
    verdict = judge(30, losses, sampled("xxxx"), sft)
    assert verdict.stop == ("evaluation loss flat for 2 checks" if flat else None)
    assert verdict.loss == losses[-1]


def test_stops_when_all_steps_are_done(sft) -> None:
    assert judge(30, [2.0], sampled("xxxx"), sft).stop is None
    assert judge(40, [2.0], sampled("xxxx"), sft).stop == "all 40 steps done"


class Verl:
    """Stands where verl's process stands: trains, saves and logs, and is polled meanwhile or only at its end."""

    def __init__(self, folder: RunFolder, sft, first: int, polled: bool = True) -> None:
        self.folder, self.sft, self.first, self.polled = folder, sft, first, polled
        self.stopped_at: int | None = None

    def __call__(self, command, *, log, timeout, environment, on_poll) -> bool:
        for step in range(self.first, self.sft.max_steps + 1):
            data = {"train/loss": 1.0}
            if step % self.sft.check_every == 0:
                save(self.folder, step)
                data["val/loss"] = 1 / step
                if self.polled:
                    assert not on_poll()  # saved and not yet logged: not to be judged
            with self.folder.live_steps.open("ab") as file:
                file.write(json.dumps({"step": step, "data": data}).encode() + b"\n")
            if self.polled and on_poll():
                self.stopped_at = step
                return True
        return False


def save(folder: RunFolder, step: int) -> None:
    weights = folder.checkpoint(step) / "huggingface"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text("{}")
    (folder.checkpoints / TRACKER).write_text(str(step))


class Runner:
    def __init__(self, folder: RunFolder, defaults, sft, monkeypatch, good_from: int = 99) -> None:
        self.folder, self.defaults, self.sft = folder, defaults, sft
        self.patch, self.good_from = monkeypatch, good_from
        self.steps: list[int] = []
        self.checked: list[int] = []
        self.told: list[int] = []
        monkeypatch.setattr(sft_process, "engine_environment", dict)

    def sample(self, weights: Path) -> list[Trajectory]:
        assert json.loads((weights / "config.json").read_text())["dtype"] == "float32"
        step = int(weights.parent.name.rpartition("_")[2])
        self.checked.append(step)
        return sampled("ssss" if step >= self.good_from else "xxxx")

    def train(self, verl) -> list[Verdict]:
        self.patch.setattr(sft_process, "run_supervised", verl)
        return sft_run.train(
            self.folder,
            sft=self.sft,
            episode=self.defaults.episode,
            model=Path("/m"),
            train_rows=Path("/t"),
            validation_rows=Path("/v"),
            seed=0,
            dtype="float32",
            sample=self.sample,
            on_step=lambda step, metrics: self.steps.append(step),
            on_verdict=lambda verdict: self.told.append(verdict.step),
        )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "f")


def test_a_run_ends_at_the_first_check_that_says_stop(folder, defaults, sft, monkeypatch) -> None:
    runner, verl = Runner(folder, defaults, sft, monkeypatch, good_from=20), Verl(folder, sft, 1)
    verdicts = runner.train(verl)
    assert [verdict.step for verdict in verdicts] == runner.checked == runner.told == [10, 20]
    assert verdicts[-1].stop.startswith("targets met")
    assert verl.stopped_at == 20
    assert runner.steps == list(range(1, 21))


def test_a_run_without_an_early_stop_takes_all_steps(folder, defaults, sft, monkeypatch) -> None:
    runner = Runner(folder, defaults, sft, monkeypatch)
    assert runner.train(Verl(folder, sft, 1))[-1].stop == "all 40 steps done"
    assert runner.checked == [10, 20, 30, 40]


def test_checks_that_are_behind_the_trainer_judge_alike(folder, defaults, sft, monkeypatch) -> None:
    runner = Runner(folder, defaults, sft, monkeypatch, good_from=20)
    verdicts = runner.train(Verl(folder, sft, 1, polled=False))
    assert [(verdict.step, verdict.loss) for verdict in verdicts] == [(10, 1 / 10), (20, 1 / 20)]
    assert runner.checked == [10, 20]


def test_a_verdict_on_a_checkpoint_that_is_gone_is_made_again(folder, defaults, sft, monkeypatch) -> None:
    Runner(folder, defaults, sft, monkeypatch, good_from=20).train(Verl(folder, sft, 1))
    kept = [line for line in folder.steps.read_bytes().splitlines(keepends=True) if b'"step": 20,' not in line]
    folder.steps.write_bytes(b"".join(kept))
    again = Runner(folder, defaults, sft, monkeypatch, good_from=30)
    assert [verdict.step for verdict in again.train(Verl(folder, sft, 11))] == [10, 20, 30]
    assert again.checked == [20, 30]


def test_without_a_step_to_take_a_model_is_judged_and_done_however_bad(sft) -> None:
    none = sft.model_copy(update={"max_steps": 0})
    for groups in (("sfff", "ssss"), ("xxxx", "xxxx")):  # the first are good enough to end SFT, had there been any
        assert judge(0, [], sampled(*groups), none).stop == "no steps asked for"


class Killed(BaseException):
    pass


def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_happened(folder, defaults, sft, monkeypatch) -> None:
    whole = Runner(RunFolder(folder.path.with_name("whole")), defaults, sft, monkeypatch, good_from=30)
    expected = whole.train(Verl(whole.folder, sft, 1))

    def dies(command, *, on_poll, **kwargs) -> bool:
        Verl(folder, sft.model_copy(update={"max_steps": 14}), 1)(
            command, log=None, timeout=0, environment={}, on_poll=on_poll
        )
        # The second checkpoint is saved and no check has seen it; the last line is cut.
        save(folder, 20)
        with folder.live_steps.open("ab") as file:
            file.write(b'{"step": 15, "da')
        raise Killed

    first = Runner(folder, defaults, sft, monkeypatch, good_from=30)
    with pytest.raises(Killed):
        first.train(dies)
    assert first.checked == [10]
    second = Runner(folder, defaults, sft, monkeypatch, good_from=30)
    assert second.train(Verl(folder, sft, 11)) == expected
    assert second.checked == [20, 30]  # the first check is not done again, but told again
    assert second.told == [10, 20, 30]
    assert second.steps == list(range(1, 31))  # also the steps of the first start, for the new run's metrics


def test_a_run_killed_after_its_verdict_starts_no_process(folder, defaults, sft, monkeypatch) -> None:
    Runner(folder, defaults, sft, monkeypatch, good_from=20).train(Verl(folder, sft, 1))
    again = Runner(folder, defaults, sft, monkeypatch)

    def never(*args, **kwargs) -> bool:
        raise AssertionError

    assert again.train(never)[-1].step == 20
    assert again.checked == []


def test_a_verdict_whose_line_was_cut_is_made_again(folder, defaults, sft, monkeypatch) -> None:
    Runner(folder, defaults, sft, monkeypatch, good_from=20).train(Verl(folder, sft, 1))
    checks = folder.path / "checks.jsonl"
    checks.write_bytes(checks.read_bytes()[:-5])
    again = Runner(folder, defaults, sft, monkeypatch, good_from=20)

    def never(*args, **kwargs) -> bool:
        raise AssertionError

    assert [verdict.step for verdict in again.train(never)] == [10, 20]
    assert again.checked == [20]
