"""The dry run as a command and as an object, with the real verl's checks."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from omegaconf import OmegaConf

from tasks import params
from tasks.errors import InputError
from tasks.rl import dry_run
from tasks.training.dry_run import DryRun, composed, table
from tasks.training.overrides import hydra_overrides

ROOT = Path(__file__).parents[2]


def dry(**settings) -> DryRun:
    content = params.resolve("tiny", settings)
    one = params.typed(content, "test")
    return DryRun(one, params.preset_of(one.rl.algorithm))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tasks.rl", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


def write_rows(count: int) -> None:
    Path("data/demos").mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({"extra_info": [{"id": f"q{number}"} for number in range(count)]}), "data/demos/rl_train.parquet"
    )


def test_before_any_stage_has_run_it_prints_everything_and_writes_nothing(workspace):
    before = files(workspace)
    done = command(
        "--dry-run",
        "--set",
        "rl.algorithm=dapo",
        "--set",
        "verl.actor_rollout_ref.actor.grad_clip=0.5",
        "--set",
        "seed=3",
    )
    assert done.returncode == 0, done.stderr
    assert files(workspace) == before
    configuration, heading, rest = done.stdout.partition("\nkey  ")
    assert heading
    config = yaml.safe_load(configuration)
    assert config["actor_rollout_ref"]["actor"]["clip_ratio_high"] == 0.28  # of the preset
    assert config["actor_rollout_ref"]["actor"]["grad_clip"] == 0.5 and config["data"]["seed"] == 3
    assert config["trainer"]["total_training_steps"] == 20  # of the profile in force
    table, _, last = rest.partition("\n\n")
    rows = [row.split("  ") for row in table.splitlines()[1:]]
    by_key = {cells[0]: [cell.strip() for cell in cells[1:] if cell.strip()] for cells in rows}
    assert by_key["actor_rollout_ref.actor.grad_clip"] == ["0.5", "1.0", "verl"]
    assert by_key["actor_rollout_ref.actor.clip_ratio_high"] == ["0.28", "0.2", "rl.clip.high (preset dapo)"]
    assert by_key["data.train_batch_size"] == ["16", "1024", "rl.prompts"]
    assert by_key["trainer.logger"][-1] == "stage rl"
    assert "actor_rollout_ref.actor.clip_ratio" not in by_key  # .2 is verl's default
    assert rows[-1][0] == "actor_rollout_ref.actor.grad_clip"  # the user's own come last
    assert last.splitlines()[:2] == ["not made yet: data/sft/model", "not made yet: data/demos/rl_train.parquet"]
    assert (
        "16 questions x 8 rollouts = 128 rollouts a step -> 2 optimizer steps of 64 -> 2 micro-batches of 32 each\n"
        "20 steps = 40 optimizer steps, 2,560 rollouts\n"
    ) in last


def test_single_settings_lie_over_those_in_force(workspace, capsys):
    params.use_profile("tiny", {"rl": {"steps": 40, "prompts": 8}})
    dry_run(["rl.prompts=4"])
    said = capsys.readouterr().out
    assert "4 questions x 8 rollouts = 32 rollouts a step" in said and "40 steps = 40 " in said


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("rl.stepz=3", r"unknown key 'rl\.stepz'; did you mean 'steps'\?"),
        ("rl.updates=3", r"rl\.updates: 3 optimizer steps a batch do not divide rl\.prompts: 16"),
        # Right in form, and refused by verl's own dataclasses and by its check at the start.
        ("verl.actor_rollout_ref.rollout.mode=sync", "^verl refuses its configuration: Rollout mode 'sync' has been"),
        (
            "verl.actor_rollout_ref.rollout.pipeline_model_parallel_size=2",
            "verl refuses its configuration: Current rollout",
        ),
        ("verl.actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker=-1", "must be a non-negative integer"),
    ],
)
def test_what_verl_or_we_refuse_is_said_in_one_line(workspace, capsys, setting, words):
    with pytest.raises(InputError, match=words) as caught:
        dry_run([setting])
    assert "\n" not in str(caught.value) and capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dry-run", "--set", "rl.stepz=3"], "rl: error: --set over params/tiny.yaml over"),
        (["--set", "rl.steps=3"], "--set goes with --dry-run"),
        (["--dry-run", "--check-engine"], "--dry-run or --check-engine, not both"),
        (["--dry-run", "--episodes", "3"], "--model and --episodes go with --check-engine"),
    ],
)
def test_wrong_options_end_with_code_2(workspace, arguments, words):
    done = command(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert words in done.stderr.splitlines()[-1]


def test_questions_are_counted(workspace):
    write_rows(200)
    assert dry().batches.questions == 200
    write_rows(15)
    with pytest.raises(InputError, match=r"rl\.prompts: 16 questions a step, and there are 15"):
        dry()


def test_what_was_made_with_other_parameters_is_not_this_runs(workspace):
    write_rows(15)
    locked = yaml.safe_load(yaml.safe_dump(params.resolve("tiny")))
    of_demos = {key: locked[key] for key in ("seed", "episode", "demos")}
    stages = {"ingest": {"params": {"data/params/params.yaml": {"ingest": locked["ingest"], "seed": 0}}}}
    stages["demos"] = {"params": {"data/params/params.yaml": of_demos}}
    stages["validate"] = {"params": {"data/params/params.yaml": {"validate": locked["validate"]}}}
    text = yaml.safe_dump({"schema": "2.0", "stages": stages})
    assert "false_alarm: 1.0e-06" in text
    (workspace / "dvc.lock").write_text(text.replace("1.0e-06", "1e-06"))  # as DVC writes it
    with pytest.raises(InputError, match="16 questions a step, and there are 15"):
        dry()
    run = dry(seed=1, demos={"rl_questions": "few.jsonl"})
    assert run.batches.questions is None
    assert (
        "not made yet: data/demos/rl_train.parquet, and what is there was made with another seed, demos.rl_questions"
        in list(run.notes())
    )
    # A later stage's key leaves them as they are.
    with pytest.raises(InputError, match="and there are 15"):
        dry(sft={"learning_rate": 0.5})


@pytest.mark.parametrize("width", [80, 120])
def test_a_narrow_terminal_breaks_no_key(workspace, width):
    run = dry(rl={"algorithm": "dapo"})
    rows = run.changes()
    lines = table(rows, width)
    assert lines[::2] == [row[0] for row in rows] and max(map(len, lines[::2])) <= 80
    place = lines.index("actor_rollout_ref.actor.clip_ratio_high")
    assert lines[place + 1] == "    0.28   (verl: 0.2)   rl.clip.high (preset dapo)"
    assert table(rows, 500) == table(rows, None) and len(table(rows, None)) == len(rows) + 1


def test_a_reader_may_leave(workspace):
    done = subprocess.run(
        f"set -o pipefail; {sys.executable} -m tasks.rl --dry-run | head -1",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "model_engine: dp\n", "")


def test_few_questions_come_again_and_a_batch_that_is_not_whole_never(workspace):
    write_rows(40)
    run = dry()
    *_, visits, rest = run.batches.lines(run.params.rl)
    assert visits == "320 question visits of 40 questions: 10.00 epochs, each question 10 times"  # of 32, two batches
    assert rest == "never played: the last 8 questions, since verl drops what is no whole batch"


def test_a_critic_is_checked_without_loading_a_model(workspace):
    run = dry(rl={"algorithm": "ppo"})
    assert run.batches.critic is not None and run.batches.critic.micro == 32
    assert run.config.critic.model["_target_"].endswith("HFModelConfig")  # what is printed is what verl would get


@pytest.mark.parametrize("algorithm", sorted(path.stem for path in (ROOT / "params/presets/algorithms").glob("*.yaml")))
def test_verl_accepts_every_preset(workspace, algorithm):
    assert dry(rl={"algorithm": algorithm}).batches.rollouts == 128


def test_verl_accepts_the_off_policy_mask_and_every_route_of_the_kl(workspace):
    dry(rl={"algorithm": "dapo", "off_policy_mask": 0.1})
    dry(rl={"kl": {"route": "loss"}})
    dry(rl={"kl": {"route": "reward", "target": 0.1}, "rollout_correction": {"mode": "decoupled", "weights": "token"}})


def test_an_interpolation_to_nothing_is_refused(workspace):
    with pytest.raises(InputError, match=r"verl\.actor_rollout_ref\.actor\.grad_clip: .*no_such"):
        dry(verl={"actor_rollout_ref.actor.grad_clip": "${no_such.key}"})


def test_every_change_is_one(workspace):
    run, default = dry(), composed([])
    changed = {row[0] for row in run.changes()}
    for key in changed:
        assert OmegaConf.select(run.config, key) != OmegaConf.select(default, key), key
    again = composed(hydra_overrides(run._settings))
    assert again == run.config
