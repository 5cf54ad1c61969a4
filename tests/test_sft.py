"""The stage without a warm-up, on a real index and a real model; vLLM's engine alone is stood in for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file

from tasks import sft
from tasks.agent.trajectory import Segment, Trajectory
from tasks.evaluation import vllm_engine
from tasks.params import Index
from tasks.retrieval.build import build


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
def stage(make_stage, make_model: Callable[..., Path], write_corpus, question_row, monkeypatch) -> Any:
    made = make_stage("sft", sft={"max_steps": 0, "check_questions": 2})
    Path("dvc.yaml").write_text("stages: {sft: {deps: []}}")
    Path("data/policy").mkdir()
    Path("data/policy/model").symlink_to(make_model())
    index = Index.model_validate(
        {"bm25": {"k1": 1.2, "b": 0.75}, "faiss": {"dimensions": 32, "ngrams": [3, 3]}, "recall_questions": 1}
    )
    Path("data/index").mkdir()
    build(write_corpus(Path("corpus.parquet"), [("p", "T", "T is.", None)]), Path("data/index"), index, print)
    rows = [question_row(f"Q{n}?", ["a"], ["T"], ["p"], id=f"q{n}") for n in range(3)]
    for row in rows:
        del row["extra_info"]["tools_kwargs"]
    Path("data/demos").mkdir()
    for name in ("rl_train", "train", "validation"):
        pd.DataFrame(rows).to_parquet(f"data/demos/{name}.parquet")
    monkeypatch.setattr(made.track, "log_figures", lambda figures, step=None: None, raising=False)
    monkeypatch.setattr(vllm_engine, "Engine", Engine)
    monkeypatch.setattr(Engine, "loaded", [])
    return made


def test_without_steps_the_policys_model_is_handed_on_and_sampled_once(stage) -> None:
    figures = sft.run(stage)
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
    assert samples["question_id"].value_counts().to_dict() == {"q0": 4, "q1": 4}
    assert Engine.loaded == [given.absolute()]
    stage.finish()
    assert not list(Path("checkpoints").iterdir())  # nothing is left to resume
