"""The engine's check as a command: wrong input at once, and real vLLM on a workspace of a tiny model."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.params import Index
from tasks.retrieval.build import build
from tasks.training.engine_check import require_model

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(make_model) -> Path:
    return make_model(seed=1)


def test_a_model_is_accepted(model: Path) -> None:
    require_model(model, 256)


def test_a_context_shorter_than_an_episode_is_refused(model: Path) -> None:
    with pytest.raises(
        InputError, match=r"256 is less than an episode's 257 tokens; lower episode.max_response_tokens"
    ):
        require_model(model, 257)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "no model in Hugging Face's form"),
        ("model.safetensors", "no model in Hugging Face's form"),
        ("tokenizer_config.json", "no tokenizer"),
    ],
)
def test_a_folder_without_a_part_of_a_model_is_refused(model: Path, tmp_path: Path, missing: str, message: str) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / missing).unlink()
    with pytest.raises(InputError, match=message):
        require_model(tmp_path / "model", 256)


def test_weights_without_a_dtype_and_a_tokenizer_without_a_template_are_refused(model: Path, tmp_path: Path) -> None:
    for name, key, message in (
        ("config.json", "dtype", "dtype"),
        ("tokenizer_config.json", "chat_template", "chat template"),
    ):
        copy = tmp_path / key
        shutil.copytree(model, copy)
        (copy / "chat_template.jinja").unlink(missing_ok=True)
        if name == "config.json":
            shutil.copy(model / "chat_template.jinja", copy)
        content = json.loads((copy / name).read_text())
        content.pop(key, None)
        (copy / name).write_text(json.dumps(content))
        with pytest.raises(InputError, match=message):
            require_model(copy, 256)


def command(
    workspace: Path, *options: str, program: tuple[str, ...] = ("-m", "tasks.rl")
) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *program, *options],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--check-engine"], "rl: error: data/sft/model: output of an earlier stage is missing; run `dvc repro sft`"),
        (["--check-engine", "--model", "nowhere"], "rl: error: nowhere: no such folder; name one with --model"),
        (["--check-engine", "--episodes", "0"], "'0' is no number above 0"),
        (["--episodes", "3"], "--model and --episodes go with --check-engine"),
    ],
)
def test_wrong_input_ends_with_code_2_and_a_line(workspace: Path, options: list[str], message: str) -> None:
    _resolve(workspace)
    done = command(workspace, *options)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert not (workspace / "data" / "rl-check").exists()


def _resolve(workspace: Path) -> None:
    done = command(workspace, program=("-m", "tasks.params"))
    assert done.returncode == 0, done.stderr


OTHER_WEIGHTS = """
# The command, but for the weights: vLLM has loaded the folder's when others take their place.
import runpy, shutil, sys
from tasks.evaluation import vllm_engine

if __name__ == "__main__":
    class Engine(vllm_engine.Engine):
        def play(self, *args, **kwargs):
            played = super().play(*args, **kwargs)
            shutil.copy("other.safetensors", "data/sft/model/model.safetensors")
            return played

    vllm_engine.Engine = Engine
    sys.argv = ["rl", "--check-engine", "--episodes", "3"]
    runpy.run_module("tasks.rl", run_name="__main__")
"""


@pytest.mark.slow
def test_command_agrees_with_itself_and_reports_other_weights(
    workspace: Path, make_model, question_row, write_corpus
) -> None:
    profile = workspace / "params" / "tiny.yaml"
    profile.write_text(profile.read_text().replace("max_response_tokens: 256", "max_response_tokens: 192"))
    _resolve(workspace)
    shutil.copytree(make_model(seed=1), workspace / "data/sft/model")
    rows = [question_row(f"Where was {n} born?", ["Rove"], ["Kashi"], ["p"], id=n) for n in ("Kashi", "Lomo", "Bedu")]
    (workspace / "data/ingest").mkdir()
    for row in rows:
        del row["extra_info"]["tools_kwargs"]
    pd.DataFrame(rows).to_parquet(workspace / "data/ingest/validation.parquet")
    corpus = write_corpus(workspace / "corpus.parquet", [("p", "Kashi", "Kashi was born in Rove.", None)])
    settings = {"bm25": {"k1": 1.2, "b": 0.75}, "faiss": {"dimensions": 32, "ngrams": [3, 3]}, "recall_questions": 1}
    (workspace / "data/index").mkdir()
    build(corpus, workspace / "data/index", Index.model_validate(settings), lambda line: None)

    done = command(workspace, "--check-engine")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    report = (workspace / "data/rl-check/report.txt").read_text()
    assert report.startswith("vLLM against transformers, greedy, same weights: 3 episodes")
    assert report.endswith("They agree.\n") and report in done.stdout
    assert len((workspace / "data/rl-check/episodes.jsonl").read_text().splitlines()) == 3

    shutil.copy(make_model(seed=2) / "model.safetensors", workspace / "other.safetensors")
    (workspace / "program.py").write_text(OTHER_WEIGHTS)
    done = command(workspace, program=("program.py",))
    assert done.returncode == 1, done.stdout + done.stderr[-3000:]
    report = (workspace / "data/rl-check/report.txt").read_text()
    assert report.count("DIFFERS") == 3 and "First disagreement: episode 0 ('Where was Kashi born?')" in report
    assert "What it looks like: Wrong from the very first token on" in report
    assert sorted(path.name for path in (workspace / "data").iterdir()) == [
        "index",
        "ingest",
        "params",
        "rl-check",
        "sft",
    ]
