"""The stage without a warm-up, on a real index and a real model; vLLM's engine alone is stood in for."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file

from tasks import sft
from tasks.agent.trajectory import Segment, Trajectory
from tasks.contract import Stage
from tasks.errors import InputError
from tasks.evaluation import vllm_engine


class Engine:
    """Plays episodes that all end in form and wrong; remembers whose weights it got."""

    loaded: list[Path] = []

    def __init__(self, model: Path, episode: Any, *, max_seqs: int, seed: int) -> None:
        self.loaded.append(model)

    def play(self, rows: list[dict], *, samples: int, **settings: Any) -> list[Trajectory]:
        said = [Segment("generated", "<answer> x </answer>", [1, 2])]
        return [
            Trajectory(row["extra_info"]["id"], "search", "made", "Q?", ["a"], 1, [1], said, format_valid=True)
            for row in rows
            for _ in range(samples)
        ]


@pytest.fixture
def stage(make_stage, make_model: Callable[..., Path], build_index, question_row, monkeypatch) -> Any:
    made = make_stage("sft", sft={"max_steps": 0, "check_questions": 8})
    Path("data/policy").mkdir()
    Path("data/policy/model").symlink_to(make_model())
    build_index(Path("data/index"), [("p", "T", "T is.", None)])
    # In blocks of one kind, as they come unshuffled; no demonstrations, as of an environment that searches nothing.
    rows = [question_row(f"Q{n}?", ["a"], ["T"], ["p"], id=f"{'ab'[n >= 20]}{n}") for n in range(40)]
    for row in rows:
        del row["extra_info"]["tools_kwargs"]
    Path("data/demos").mkdir()
    pd.DataFrame(rows).to_parquet("data/demos/left.parquet")
    monkeypatch.setattr(made.track, "log_figures", lambda figures, step=None: None, raising=False)
    monkeypatch.setattr(vllm_engine, "Engine", Engine)
    monkeypatch.setattr(Engine, "loaded", [])
    return made


def test_without_steps_the_policys_model_is_handed_on_and_sampled_once(stage, capsys) -> None:
    figures = sft.run(stage)
    assert "trainer" not in capsys.readouterr().out
    assert figures == {
        "steps": 0,
        "loss": None,
        "format_rate": 1.0,
        "success_rate": 0.0,
        "pass_at_4": 0.0,
        "stopped_by": "no steps asked for",
    }
    given, handed_on = Path("data/policy/model"), stage.out / "model"
    assert {path.name for path in handed_on.iterdir()} == {path.name for path in given.iterdir()}
    assert not handed_on.is_symlink()
    before, after = (load_file(folder / "model.safetensors") for folder in (given, handed_on))
    assert all((before[name] == after[name]).all() for name in before | after)
    assert (stage.out / "steps.jsonl").read_bytes() == b""
    samples = pd.read_parquet(stage.out / "samples.parquet")
    assert set(samples["question_id"].value_counts()) == {4}
    assert Engine.loaded == [given.absolute()]
    stage.finish()
    assert not list(Path("checkpoints").iterdir())  # nothing is left to resume


def test_too_few_demonstrations_for_a_batch_are_refused(make_stage, stage) -> None:
    asking = make_stage("sft", sft={"batch_size": 4})
    frame = pd.DataFrame({"question": ["Q?"] * 4})
    frame.to_parquet("data/demos/train.parquet")
    frame.head(3).to_parquet("data/demos/validation.parquet")
    with pytest.raises(InputError, match=r"data/demos/validation\.parquet: 3 demonstrations.*sft\.batch_size has 4"):
        sft.run(asking)


def asked(made: Stage) -> list[str]:
    """Ids of the questions that the stage's check played."""
    sft.run(made)
    return list(dict.fromkeys(pd.read_parquet(made.out / "samples.parquet")["question_id"]))


def test_the_check_asks_of_every_block_of_rows_and_by_seed(stage, make_stage, monkeypatch) -> None:
    drawn = asked(stage)
    assert len(drawn) == 8 and {name[0] for name in drawn} == {"a", "b"}

    def again(**top: Any) -> list[str]:
        made = make_stage("sft", sft={"max_steps": 0, "check_questions": 8}, **top)
        monkeypatch.setattr(made.track, "log_figures", lambda figures, step=None: None, raising=False)
        shutil.rmtree(made.out / "model")
        return asked(made)

    assert again() == drawn
    assert again(seed=stage.params.seed + 1) != drawn


def test_training_without_demonstrations_is_refused_with_the_file(stage, make_stage) -> None:
    made = make_stage("sft", sft={"check_questions": 8})
    with pytest.raises(InputError, match=r"data/demos/train\.parquet: output of an earlier stage is missing"):
        sft.run(made)
