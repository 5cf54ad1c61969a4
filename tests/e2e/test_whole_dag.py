"""The whole DAG through the flow, every engine real, on as little as possible; then what it left behind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tasks.processes import marked_processes

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.e2e


def run(workspace, *command, expect=0):
    # Other tests import what sets these for this process: a newcomer's shell has none of them.
    ours = ("FORAGER_", "HF_", "MLFLOW_", "PREFECT_", "RAY_", "TRANSFORMERS_", "VERL_", "VLLM_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=workspace, env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == expect, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A clone of the project with a reduced profile, in which the flow has run once."""
    folder = tmp_path_factory.mktemp("whole") / "a clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    for path in ("tasks", "flows", "params", "dvc.yaml"):  # what is being worked on, not only what is committed
        subprocess.run(["cp", "-r", str(ROOT / path), str(folder)], check=True)
    shutil.copy(Path(__file__).with_name("reduced.yaml"), folder / "params")
    (folder / "first-run.txt").write_text(run(folder, "flows.train_and_eval", "--profile", "reduced"))
    return folder


def figures(workspace, stage):
    return json.loads((workspace / "metrics" / f"{stage}.json").read_text())


def test_it_ends_with_a_decision_and_a_summary(workspace):
    said = (workspace / "first-run.txt").read_text()
    assert figures(workspace, "gate")["decision"] == "released"
    (entry,) = map(json.loads, (workspace / "data/release/history.jsonl").read_text().splitlines())
    assert (entry["decision"], entry["action"]) == ("released", "promoted")
    assert "The climb" in said and "Where to look next" in said
    assert (workspace / "data/evaluate/report.html").stat().st_size > 10_000


def test_no_process_is_left(workspace):
    assert marked_processes(workspace) == []


def test_mask_ids_and_text_of_every_rollout_agree(workspace):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(workspace / "data/sft/model")
    rollouts = pd.concat(pd.read_parquet(path) for path in sorted((workspace / "data/rl/rollouts").glob("*.parquet")))
    observations = 0
    for row in rollouts.itertuples():
        assert tokenizer.decode(row.response_ids) == row.text
        position = 0
        for segment in json.loads(row.segments):
            mask = set(row.response_mask[position : position + segment["tokens"]])
            ids = row.response_ids[position : position + segment["tokens"]]
            position += segment["tokens"]
            assert tokenizer.decode(ids) == segment["text"]
            if segment["kind"] == "observation":
                observations += 1
                assert mask == {0}
                assert segment["text"].strip().startswith("<information>")
                assert segment["text"].strip().endswith("</information>")
            else:
                assert mask <= {1}
        assert position == len(row.response_ids) == len(row.response_mask)
    assert observations > 0


def test_rl_really_trained(workspace):
    rl, merge = figures(workspace, "rl"), figures(workspace, "merge")
    assert rl["steps"] == 10
    assert rl["rollout_prob_diff_max"] < 1e-3
    assert rl["rollout_logprob_diff_max"] < 1e-3
    assert rl["sanity_max_logprob_diff"] < 1e-3
    assert merge["max_logit_diff"] == 0
    assert merge["max_logit_change"] > 0
    assert merge["dtype"] == "float32"


def test_the_reward_rises(workspace):
    rows = [json.loads(line) for line in (workspace / "data/rl/steps.jsonl").read_text().splitlines()]
    name = "val-core/world-comparison/reward/mean@1"
    rewards = {row["step"]: row["data"][name] for row in rows if name in row["data"]}
    assert list(rewards) == [0, 5, 10]
    # Giving up, which SFT has learnt, is paid .1; yes or no is right half the time. With 40 questions the
    # difference has a standard deviation of .08 round .4.
    assert rewards[10] - rewards[0] > 0.1, rewards
    searches = {step: kinds["all"]["searches"] for step, kinds in figures(workspace, "rl")["validation"].items()}
    assert searches["10"] > searches["0"], searches


def test_a_second_run_is_all_cached_and_dvc_agrees(workspace):
    run(workspace, "flows.train_and_eval", "--profile", "reduced")
    assert "up to date" in run(workspace, "dvc", "status")


def test_lineage_reaches_from_the_run_to_the_data(workspace):
    said = run(workspace, "tasks.lineage", figures(workspace, "gate")["run_id"])
    for name in ("ingest", "rl", "evaluate", "git"):
        assert name in said


def test_one_changed_rl_parameter_makes_only_rl_and_what_follows_stale(workspace):
    profile = workspace / "params/reduced.yaml"
    content = yaml.safe_load(profile.read_text())
    content["rl"]["learning_rate"] = 1.0e-5
    profile.write_text(yaml.safe_dump(content))
    run(workspace, "dvc", "repro", "params")
    status = run(workspace, "dvc", "status")
    changed = {line.rstrip(":") for line in status.splitlines() if line and not line.startswith(("\t", " "))}
    assert changed == {"rl"}
