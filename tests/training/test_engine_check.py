"""The engine's check as a command: wrong input at once, and real vLLM on a workspace of a tiny model."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoTokenizer

from tasks.errors import InputError
from tasks.training.engine_check import open_tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(make_model) -> Path:
    return make_model(seed=1)


def test_a_model_is_accepted(model: Path, tokenizer) -> None:
    assert open_tokenizer(model, 256).encode("Where was Kashi born?") == tokenizer.encode("Where was Kashi born?")


def test_a_context_shorter_than_an_episode_is_refused(model: Path) -> None:
    with pytest.raises(
        InputError, match=r"256 is less than an episode's 257 tokens; lower episode.max_response_tokens"
    ):
        open_tokenizer(model, 257)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "no model in Hugging Face's form"),
        ("model.safetensors", "no model in Hugging Face's form"),
        ("tokenizer_config.json", "no tokenizer"),
        ("tokenizer.json", "the tokenizer cannot be loaded"),
        ("chat_template.jinja", "the tokenizer has no chat template"),
    ],
)
def test_a_folder_without_a_part_of_a_model_is_refused(model: Path, tmp_path: Path, missing: str, message: str) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / missing).unlink()
    with pytest.raises(InputError, match=message):
        open_tokenizer(tmp_path / "model", 256)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": None}, "dtype is None, none of float32"),
        ({"dtype": "float64"}, "dtype is 'float64', none of float32"),
        ({"max_position_embeddings": "x"}, "the configuration cannot be loaded.*max_position_embeddings.* got str"),
    ],
)
def test_a_wrong_value_of_the_configuration_is_named(model: Path, tmp_path: Path, change: dict, message: str) -> None:
    shutil.copytree(model, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(InputError, match=message):
        open_tokenizer(tmp_path / "model", 256)


def test_a_tokenizer_with_more_tokens_than_embeddings_is_refused(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = len(tokenizer)
    tokenizer.add_tokens(["<one-more>"])
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=f"the tokenizer has {rows + 1} tokens, the model embeddings of {rows}"):
        open_tokenizer(tmp_path / "model", 256)


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


def _write_inputs(workspace: Path, question_row, build_index) -> None:
    """Three validation questions and an index of one passage; max_response_tokens such that the model's 256 do."""
    profile = workspace / "params" / "tiny.yaml"
    profile.write_text(profile.read_text().replace("max_response_tokens: 256", "max_response_tokens: 192"))
    _resolve(workspace)
    rows = [question_row(f"Where was {n} born?", ["Rove"], ["Kashi"], ["p"], id=n) for n in ("Kashi", "Lomo", "Bedu")]
    (workspace / "data/ingest").mkdir()
    for row in rows:
        del row["extra_info"]["tools_kwargs"]
    pd.DataFrame(rows).to_parquet(workspace / "data/ingest/validation.parquet")
    build_index(workspace / "data/index", [("p", "Kashi", "Kashi was born in Rove.", None)])


def test_broken_weights_and_long_prompts_end_with_code_2_before_vllm_starts(
    workspace: Path, model: Path, question_row, build_index
) -> None:
    _write_inputs(workspace, question_row, build_index)
    shutil.copytree(model, workspace / "cut")
    weights = workspace / "cut" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    done = command(workspace, "--check-engine", "--model", "cut")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rl: error: {workspace}/cut: the model cannot be loaded: SafetensorError: ")
    assert len(done.stderr.splitlines()) == 1

    rows = pd.read_parquet("data/ingest/validation.parquet")
    rows["prompt"] = [[{"role": "user", "content": "Where was Kashi born? " * 60}]] * len(rows)
    rows.to_parquet("data/ingest/validation.parquet")
    done = command(workspace, "--check-engine", "--model", str(model))
    assert done.returncode == 2 and "starting vLLM" not in done.stdout
    assert "tokens, more than episode.max_prompt_tokens; raise that parameter" in done.stderr
    assert len(done.stderr.splitlines()) == 1


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
    workspace: Path, make_model, question_row, build_index
) -> None:
    _write_inputs(workspace, question_row, build_index)
    shutil.copytree(make_model(seed=1), workspace / "data/sft/model")

    done = command(workspace, "--check-engine")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    report = (workspace / "data/rl-check/report.txt").read_text()
    assert report.startswith("vLLM against transformers, greedy, same weights: 3 episodes")
    assert report.endswith("They agree.\n") and report in done.stdout
    assert len((workspace / "data/rl-check/episodes.jsonl").read_text().splitlines()) == 3

    shutil.copy(make_model(seed=2) / "model.safetensors", workspace / "other.safetensors")
    (workspace / "program.py").write_text(OTHER_WEIGHTS)
    done = command(workspace, program=("program.py",))
    assert done.returncode == 3, done.stdout + done.stderr[-3000:]
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
