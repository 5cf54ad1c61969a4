"""Every preset and switch of the algorithm, three real steps of verl and vLLM each: that it trains and that it acts.

One start of Ray, trainer and engine takes most of a case's time, so the whole file takes long: run single ones with -k.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tasks import params
from tasks.params import Params, Playing
from tasks.training import rl_run
from tasks.training.checkpoints import RunFolder
from tasks.training.merging import saved_model, trained_model
from tasks.training.steps import read_steps

ROOT = Path(__file__).parents[2]
STEPS, PROMPTS, SAMPLES = 3, 4, 4
pytestmark = pytest.mark.slow
# A base for all: a warmed-up model of the reduced DAG, whose answers, yes or no, are right half the time.
SMALL = {
    "steps": STEPS, "prompts": PROMPTS, "samples": SAMPLES, "learning_rate": 1e-3, "validate_every": STEPS,
    "validation_questions": 4, "micro_batch_size": 8, "sanity": {"episodes": 2},
}  # fmt: skip
STAGES = ("params", "ingest", "policy", "validate", "index", "demos", "sft")


@dataclass
class Run:
    """What three steps left behind.

    Attributes:
        rl: the section in force.
        steps: metrics of each training step.
        rollouts: every episode of training, those of groups that were thrown away as well.
        moved: largest change of a weight.
    """

    rl: params.Rl
    steps: list[dict[str, Any]]
    rollouts: pd.DataFrame
    moved: float

    def of(self, name: str) -> list[float]:
        return [step[name] for step in self.steps]

    def groups(self, column: str) -> list[pd.Series]:
        """For each step, of every generated group its number of different values."""
        found = self.rollouts.groupby(["step", "question_id"])[column].nunique()
        return [found[step] for step in range(1, STEPS + 1)]


def prepare(folder: Path) -> Path:
    """The stages before rl, once for all cases."""
    shutil.copytree(ROOT / "params", folder / "params")
    shutil.copy(ROOT / "tests/e2e/reduced.yaml", folder / "params")
    shutil.copy(ROOT / "dvc.yaml", folder)
    (folder / "data/sources").mkdir(parents=True)
    (folder / "params/profile.yaml").write_text("profile: reduced\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for stage in STAGES:
        command = [sys.executable, "-m", f"tasks.{stage}"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{stage}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return folder


def play(workspace: Path, name: str, settings: dict[str, Any]) -> Run:
    """Three steps under `settings` of section rl; the current folder is the workspace."""
    asked = {"rl": params.overlay(dict(SMALL), settings)}
    resolved: Params = params.parse(params.resolve("reduced", asked), where=name)
    folder = RunFolder(workspace / "runs" / name)
    data = workspace / "data"
    rl_run.train(
        folder,
        rl=resolved.rl,
        verl=resolved.verl,
        episode=resolved.episode,
        shared=Playing.of(resolved).model_dump(mode="json"),
        model=data / "sft/model",
        train_rows=data / "demos/rl_train.parquet",
        validation_rows=data / "ingest/validation.parquet",
        index=data / "index",
        seed=resolved.seed,
        dtype="float32",
        say=lambda line: None,
        on_step=lambda step, metrics: None,
    )
    steps = [step["data"] for step in read_steps(folder.steps) if "critic/score/mean" in step["data"]]
    tables = sorted(folder.rollouts.glob("train_*.parquet"))
    before = saved_model(data / "sft/model").state_dict()
    after = trained_model(folder.checkpoint(STEPS) / "actor").state_dict()
    moved = max(float((after[key] - before[key]).abs().max()) for key in before)
    return Run(resolved.rl, steps, pd.concat(pd.read_parquet(path) for path in tables), moved)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("presets"))


def clips_nothing(run: Run) -> None:
    """One update a batch: every ratio is 1."""
    assert run.of("actor/pg_clipfrac") == [0, 0, 0]
    assert run.of("actor/ppo_kl") == pytest.approx([0, 0, 0], abs=1e-5)


def advantages_are(estimate: Callable[[pd.Series], pd.Series]) -> Callable[[Run], None]:
    """verl's largest and smallest advantage of a step are what an estimator makes of the logged rewards of a group."""

    def check(run: Run) -> None:
        for figures, (_, played) in zip(run.steps, run.rollouts.groupby("step"), strict=True):
            if figures.get("training/filter_groups/discarded_surplus_samples"):
                continue  # the log does not say which groups found no room
            if run.rl.dynamic_sampling is not None:
                played = played.groupby("question_id").filter(lambda group: group["success"].nunique() > 1)
            advantages = played.groupby("question_id")["reward"].transform(estimate)[~played["no_loss"]]
            assert figures["critic/advantages/max"] == pytest.approx(advantages.max(), abs=1e-4)
            assert figures["critic/advantages/min"] == pytest.approx(advantages.min(), abs=1e-4)

    return check


def grpos(rewards: pd.Series) -> pd.Series:
    return (rewards - rewards.mean()) / (rewards.std() + 1e-6)


def dr_grpos(rewards: pd.Series) -> pd.Series:
    return rewards - rewards.mean()


def rloos(rewards: pd.Series) -> pd.Series:
    return rewards - (rewards.sum() - rewards) / (len(rewards) - 1)


def ratios_move(run: Run) -> None:
    """From the second update of a batch on."""
    assert all(abs(value) > 0 for value in run.of("actor/ppo_kl"))


def clips(run: Run) -> None:
    """A sequence's ratio leaves 1 - 3e-4 .. 1 + 4e-4 at this learning rate."""
    assert max(run.of("actor/pg_clipfrac")) > 0


def has_no_ratio(run: Run) -> None:
    assert not any("actor/pg_clipfrac" in step for step in run.steps)


def masks_what_has_drifted(run: Run) -> None:
    """In the second pass bad trajectories, which the first has made less likely: of all passes less than the half."""
    assert 0 < max(run.of("actor/off_policy_masked")) < 0.5


def trains_on_mixed_groups_alone(run: Run) -> None:
    """By the log of all that was generated: what was not mixed is exactly what was evicted."""
    name = "training/filter_groups"
    for step, values in zip(run.steps, run.groups("success"), strict=True):
        assert step[f"{name}/generated_groups"] == len(values)
        assert step[f"{name}/evicted_samples"] == (values == 1).sum()
        assert step[f"{name}/discarded_surplus_samples"] == (values > 1).sum() - PROMPTS
        assert step[f"{name}/generations_per_batch"] == len(values) / PROMPTS
        assert step["critic/advantages/max"] > 0 > step["critic/advantages/min"]
    assert sum(run.of(f"{name}/evicted_samples")) > 0


def keeps_the_uncertain(run: Run) -> None:
    name = "training/keep_groups"
    for step, group in run.rollouts.groupby("step"):
        figures = run.steps[step - 1]
        std = group.groupby("question_id")["reward"].std(ddof=0).sort_values(ascending=False)
        assert figures[f"{name}/generated_groups"] == len(std) == 2 * PROMPTS
        assert figures[f"{name}/kept_std"] == pytest.approx(std[:PROMPTS].mean(), abs=1e-6)
        assert figures[f"{name}/dropped_std"] == pytest.approx(std[PROMPTS:].mean(), abs=1e-6)


def critic_learns(run: Run) -> None:
    assert all(isfinite(value) and value > 0 for value in run.of("critic/vf_loss"))
    assert len(set(run.of("critic/values/mean"))) == STEPS


def kl_in_the_loss(run: Run) -> None:
    first, *later = run.of("actor/kl_loss")
    assert first == pytest.approx(0, abs=1e-6) and min(later) > 0  # the policy starts as its own reference
    assert run.of("actor/kl_coef") == [run.rl.kl.coefficient] * STEPS


def kl_in_the_reward_adapts(run: Run) -> None:
    """Far below its target the KL lowers the coefficient by .2 of rollouts / horizon: 1 - .2 x 16 / 160 a step."""
    first, second, third = run.of("actor/reward_kl_penalty_coeff")
    assert first == run.rl.kl.coefficient
    assert second / first == pytest.approx(0.98) and third / second == pytest.approx(0.98)


def engine_is_the_old_policy(run: Run) -> None:
    assert all("actor/rollout_corr/kl" in step for step in run.steps)
    assert all(step["actor/entropy"] > 0 for step in run.steps)


def corrected_by_token(run: Run) -> None:
    # The engine is the trainer to some millionths, so the weights are 1 to that, and nothing is rejected.
    assert run.of("rollout_corr/rollout_is_mean") == pytest.approx([1, 1, 1], abs=1e-3)
    assert run.of("rollout_corr/rollout_rs_masked_fraction") == [0, 0, 0]


def whitened(run: Run) -> None:
    """Where any rewards of the batch differ; exactly 0 where none do."""
    differ = run.rollouts.groupby("step")["reward"].nunique() > 1
    assert differ.any()
    for some, low, high in zip(differ, run.of("critic/advantages/min"), run.of("critic/advantages/max"), strict=True):
        assert low < 0 < high if some else low == high == 0


TWO = {"updates": 2}
CASES: dict[str, tuple[dict[str, Any], list[Callable[[Run], None]]]] = {
    "grpo": ({"algorithm": "grpo"}, [clips_nothing, advantages_are(grpos)]),
    "dr_grpo": ({"algorithm": "dr_grpo"}, [clips_nothing, advantages_are(dr_grpos)]),
    "dapo": ({"algorithm": "dapo"}, [trains_on_mixed_groups_alone, ratios_move, advantages_are(grpos)]),
    "dapo_dr": ({"algorithm": "dapo_dr"}, [trains_on_mixed_groups_alone, ratios_move, advantages_are(dr_grpos)]),
    "gspo": ({"algorithm": "gspo"}, [ratios_move, advantages_are(grpos), clips]),
    "ppo": ({"algorithm": "ppo", "critic": {"learning_rate": 1e-3}}, [critic_learns]),
    "rloo": ({"algorithm": "rloo"}, [clips_nothing, advantages_are(rloos)]),
    "reinforce_plus_plus": ({"algorithm": "reinforce_plus_plus"}, [clips_nothing, whitened]),
    "gpg": ({"loss": "gpg"}, [has_no_ratio]),
    "clip_cov": ({"loss": "clip_cov", **TWO}, [ratios_move]),
    "kl_cov": ({"loss": "kl_cov", **TWO}, [ratios_move]),
    "geo_mean": ({"loss": "geo_mean", **TWO}, [ratios_move]),
    "kl_loss": ({"kl": {"route": "loss"}}, [kl_in_the_loss]),
    "kl_reward": ({"kl": {"route": "reward", "target": 1e6, "horizon": 160}}, [kl_in_the_reward_adapts]),
    "bypass": ({"rollout_correction": {"mode": "bypass"}, **TWO}, [engine_is_the_old_policy]),
    "decoupled": (
        {
            "rollout_correction": {
                "mode": "decoupled", "weights": "token", "reject": "seq_mean_k1", "bounds": [0.5, 2.0],
            }
        },
        [corrected_by_token],
    ),
    "off_policy_mask": ({"off_policy_mask": 1e-6, "epochs": 2}, [ratios_move, masks_what_has_drifted]),
    "turn": ({"credit": {"level": "turn"}}, [clips_nothing]),
    "keep_groups": ({"keep_groups": 0.5}, [keeps_the_uncertain]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_three_steps_train_and_the_switch_acts(prepared: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    settings, checks = CASES[name]
    monkeypatch.chdir(prepared)
    check(play(prepared, name, settings), checks)


def check(run: Run, checks: list[Callable[[Run], None]]) -> None:
    assert len(run.steps) == STEPS
    for step in run.steps:
        for key in ("actor/pg_loss", "actor/grad_norm", "actor/entropy"):
            assert isfinite(step[key]), key
    assert run.moved > 0
    for one in checks:
        one(run)


def test_every_preset_has_a_case() -> None:
    presets = {path.stem for path in (ROOT / "params/presets/algorithms").glob("*.yaml")}
    assert {settings["algorithm"] for settings, _ in CASES.values() if "algorithm" in settings} == presets
