"""The optional stage after merge, on a real model; verl's process alone is stood in for where no test is slow."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tasks import params, rft
from tasks.errors import InputError
from tasks.processes import CommandError
from tasks.training import rft_run, sft_process
from tasks.training.checkpoints import TRACKER, RunFolder

SETTINGS = {"enabled": True, "batch_size": 4, "validation": 4, "per_question": 2, "epochs": 2}
JUDGED = {"rft": {"expression": "evaluate.models.rft.em.mean >= 0.5", "severity": "error"}}


def test_disabled_it_records_that_it_had_nothing_to_do(make_stage, capsys) -> None:
    assert rft.run(make_stage("rft")) == {"enabled": False, "n": 0}
    assert "rft.enabled is false: nothing to do" in capsys.readouterr().out
    assert not Path("checkpoints").exists()


@pytest.fixture
def make(make_stage, make_model: Callable[..., Path], monkeypatch) -> Callable[..., Any]:
    """An enabled stage after an RL run of `questions` questions, each answered right twice, in 7 and in 8 tokens."""

    def make_(questions: int, **settings: Any) -> Any:
        stage = make_stage("rft", rft={**SETTINGS, **settings}, gate={"checks": JUDGED})
        for name, seed in (("merge", 1), ("sft", 2)):
            Path("data", name).mkdir(exist_ok=True)
            Path("data", name, "model").symlink_to(make_model(seed))
        rows = [
            {
                "question_id": f"q{n}", "step": 1, "sample": sample, "success": 1.0, "format_valid": True,
                "stop_reason": "answer", "copied_example": False, "prompt_ids": [1, 2, 3],
                "response_ids": [10 + n, *range(5 + sample)], "response_mask": [1, 1, 0, 0, *[1] * (2 + sample)],
            }
            for n in range(questions)
            for sample in (1, 2)
        ]  # fmt: skip
        Path("data/rl/rollouts").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), "data/rl/rollouts/train_00001.parquet")
        monkeypatch.setattr(stage.track, "log_figures", lambda figures, step=None: None, raising=False)
        return stage

    return make_


def test_too_few_trajectories_for_a_batch_are_refused(make) -> None:
    with pytest.raises(InputError) as caught:
        rft.run(make(3))
    assert str(caught.value) == (
        "data/rl/rollouts: 6 successful trajectories, 2 to train on and 4 held back, and a batch of rft.batch_size "
        "has 4; take more rl.steps or rft.per_question, or a smaller batch"
    )


def test_no_success_at_all_is_refused_in_the_same_line(make) -> None:
    stage = make(3)
    path = Path("data/rl/rollouts/train_00001.parquet")
    pd.read_parquet(path).assign(success=0.0).to_parquet(path)
    with pytest.raises(InputError, match=r"0 successful trajectories, 0 to train on and 0 held back"):
        rft.run(stage)


class Verl:
    """Stands where verl's process stands: exports weights at the end of an epoch, logs, and is polled."""

    def __init__(self, folder: RunFolder, last: int, first: int = 1, killed_after: int | None = None) -> None:
        self.folder, self.last, self.first, self.killed_after = folder, last, first, killed_after

    def __call__(self, command, *, log, timeout, environment, on_poll) -> bool:
        self.command = command
        for step in range(self.first, self.last + 1):
            data = {"train/loss": 1 / step}
            if step % 3 == 0:
                weights = self.folder.checkpoint(step) / "huggingface"
                weights.mkdir(parents=True)
                (weights / "config.json").write_text('{"dtype": "bfloat16"}')
                (self.folder.checkpoints / TRACKER).write_text(str(step))
                data["val/loss"] = 2 / step
            with self.folder.live_steps.open("ab") as file:
                file.write(json.dumps({"step": step, "data": data}).encode() + b"\n")
            assert not on_poll()
            if step == self.killed_after:
                raise KeyboardInterrupt
        return False


def train(folder: RunFolder, defaults: params.Params, verl: Any, monkeypatch) -> tuple[Path, list[int]]:
    monkeypatch.setattr(sft_process, "engine_environment", dict)
    monkeypatch.setattr(sft_process, "run_supervised", verl)
    told: list[int] = []
    weights = rft_run.train(
        folder, rft=defaults.rft.model_copy(update={"epochs": 2}), episode=defaults.episode, model=Path("/m"),
        train_rows=Path("/t"), validation_rows=Path("/v"), steps_per_epoch=3, seed=0, dtype="float32",
        on_step=lambda step, metrics: told.append(step),
    )  # fmt: skip
    return weights, told


def test_all_epochs_are_trained_and_the_export_says_its_dtype(tmp_path, defaults, monkeypatch) -> None:
    folder = RunFolder(tmp_path / "f")
    verl = Verl(folder, 6)
    weights, told = train(folder, defaults, verl, monkeypatch)
    assert weights == folder.checkpoint(6) / "huggingface"
    assert json.loads((weights / "config.json").read_text())["dtype"] == "float32"
    assert told == [1, 2, 3, 4, 5, 6]
    wanted = {"trainer.total_training_steps=6", "trainer.save_freq=3", "data.custom_cls.name=TrajectoryDataset"}
    assert wanted <= set(verl.command)


def test_a_killed_run_goes_on_after_its_last_whole_epoch(tmp_path, defaults, monkeypatch) -> None:
    folder = RunFolder(tmp_path / "f")
    with pytest.raises(KeyboardInterrupt):
        train(folder, defaults, Verl(folder, 6, killed_after=4), monkeypatch)
    _, told = train(folder, defaults, Verl(folder, 6, first=4), monkeypatch)
    assert told == [1, 2, 3, 4, 5, 6]  # those of the first start too, for the new run's metrics

    def never(*args, **kwargs) -> bool:
        raise AssertionError

    # Killed again after its last step: nothing is left to train.
    assert train(folder, defaults, never, monkeypatch)[0] == folder.checkpoint(6) / "huggingface"


def test_a_trainer_that_ends_early_is_no_success(tmp_path, defaults, monkeypatch) -> None:
    folder = RunFolder(tmp_path / "f")
    with pytest.raises(CommandError, match="verl ended before step 6"):
        train(folder, defaults, Verl(folder, 3), monkeypatch)


def loss(model: Path, rows: pd.DataFrame) -> float:
    """Mean negative log-likelihood of the masked tokens, in nats, by transformers alone."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    total, count = 0.0, 0
    for one in rows.to_dict("records"):
        ids = torch.tensor([[*one["prompt_ids"], *one["response_ids"]]])
        mask = torch.tensor([0] * len(one["prompt_ids"]) + list(one["response_mask"]), dtype=torch.bool)[1:]
        with torch.no_grad():
            logp = policy(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        total, count = total - float(logp[mask].sum()), count + int(mask.sum())
    return total / count


@pytest.mark.slow
@pytest.mark.parametrize("start", ["rl", "sft"])
def test_verl_trains_the_model_it_starts_from_on_the_trajectories(make, start: str) -> None:
    stage = make(12, start=start, learning_rate=1e-3, epochs=3)
    figures = rft.run(stage)
    train_rows, held_back = (pd.read_parquet(stage.out / f"{name}.parquet") for name in ("train", "validation"))
    assert (figures["n"], figures["questions"], figures["held_back"], figures["steps"]) == (20, 10, 4, 15)
    before = Path("data", "merge" if start == "rl" else "sft", "model")
    trained = stage.out / "model"
    assert json.loads((trained / "config.json").read_text())["dtype"] == "float32"
    assert loss(trained, train_rows) < loss(before, train_rows)
    assert figures["loss_last"] < figures["loss_first"]
    # verl's evaluation loss is that of the model that is handed on: the same rows, tokens and masks.
    assert figures["evaluation_loss"] == pytest.approx(loss(trained, held_back), rel=1e-4)
    stage.finish()
    assert not list(Path("checkpoints").iterdir())


@pytest.mark.parametrize(
    ("checks", "judged"),
    [
        (JUDGED, True),
        ({"rft": {"expression": "evaluate.comparisons.rft-sft.em.low > 0", "severity": "error"}}, True),
        ({"rft": {"expression": "evaluate.models.rft.em.mean >= 0.5", "severity": "warning"}}, False),
        ({"rft": {"expression": "rft.n > 0", "severity": "error"}}, False),
        ({}, False),
    ],
)
def test_a_model_that_no_check_judges_is_refused(workspace, checks: dict, judged: bool) -> None:
    settings = {"rft": {"enabled": True}, "gate": {"checks": checks}}
    if judged:
        assert params.resolve("tiny", settings)["rft"]["enabled"]
        return
    with pytest.raises(InputError, match=r"rft\.enabled: .* no check of severity error judges it; add one to gate"):
        params.resolve("tiny", settings)


def test_too_few_held_back_for_a_batch_are_refused(workspace) -> None:
    settings = {"rft": {"enabled": True, "validation": 31}, "gate": {"checks": JUDGED}}
    with pytest.raises(InputError, match=r"rft\.validation: smaller than rft\.batch_size"):
        params.resolve("tiny", settings)
