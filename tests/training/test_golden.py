"""What each preset becomes in verl's configuration, key by key; `python tests/training/test_golden.py` writes it anew.

golden/grpo.yaml holds all keys of the algorithm that preset grpo sets, golden/NAME.yaml what differs from grpo's in the
whole resolved configuration: a preset changes exactly these.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from tasks.params import Params, overlay, parse
from tasks.training.algorithm_config import algorithm_settings
from tasks.training.algorithms_table import SOURCES, markdown, rows
from tasks.training.overrides import hydra_overrides
from tasks.training.rl_config import RlFiles, rl_settings

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
PRESETS = sorted(path.stem for path in (ROOT / "params/presets/algorithms").glob("*.yaml"))


def with_rl(preset: str, top: dict[str, Any] | None = None) -> Params:
    """The defaults under a preset under single settings of section rl."""
    content = yaml.safe_load((ROOT / "params/defaults.yaml").read_text(encoding="utf-8"))
    content = overlay(content, yaml.safe_load((ROOT / f"params/presets/algorithms/{preset}.yaml").read_text()))
    return parse({"profile": "test", **overlay(content, {"rl": {"algorithm": preset, **(top or {})}})}, where="test")


def composed(params: Params, model: Path = Path("/m")) -> Any:
    """verl's whole configuration, which takes Hydra a second."""
    files = RlFiles(model, Path("/t.parquet"), Path("/v.parquet"), Path("/loop.yaml"), Path("/c"))
    settings = rl_settings(params.rl, params.episode, files, seed=0, dtype="float32", gpu=False, bucket=64)
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", hydra_overrides(settings))


@cache
def of_preset(preset: str) -> Any:
    return composed(with_rl(preset))


def flat(config: Any) -> dict[str, Any]:
    """Resolved values by dotted key; what is missing (`???`) stays so."""

    def walk(node: Any, prefix: str):
        for key, value in node.items():
            if isinstance(value, dict) and value:
                yield from walk(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    return dict(walk(OmegaConf.to_container(config, resolve=True), ""))


def changes(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Keys whose value is another one in `other`, or is there alone; none is gone, but to become a section."""
    sections = {key.rpartition(".")[0] for key in other}
    assert base.keys() <= other.keys() | sections
    return {key: value for key, value in sorted(other.items()) if key not in base or base[key] != value}


def found(preset: str) -> dict[str, Any]:
    if preset == "grpo":
        base = with_rl(preset)
        values, ours = flat(of_preset(preset)), algorithm_settings(base.rl, base.episode)
        tops = [key.lstrip("+") for key in ours]
        return {key: value for key, value in values.items() if any(f"{key}.".startswith(f"{top}.") for top in tops)}
    return changes(flat(of_preset("grpo")), flat(of_preset(preset)))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_changes_exactly_these_keys(preset: str) -> None:
    golden = yaml.safe_load((GOLDEN / f"{preset}.yaml").read_text(encoding="utf-8"))
    assert found(preset) == golden, f"look at the difference; then {Path(__file__).name} as a command writes it anew"


def test_every_preset_has_a_golden_file_and_no_other_has() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == PRESETS == sorted(SOURCES)


def accepted(config: Any) -> Any:
    """The configuration, once verl's own checks have accepted it."""
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    return config


@pytest.mark.parametrize("preset", PRESETS)
def test_verls_own_checks_accept_a_preset(preset: str, make_model) -> None:
    # A critic's model is opened by them.
    config = accepted(composed(with_rl(preset), make_model()) if preset == "ppo" else of_preset(preset))
    assert need_critic(config) == (preset == "ppo")
    assert not need_reference_policy(config)


ACTOR, CORRECTION = "actor_rollout_ref.actor", "algorithm.rollout_correction"
LOSS = f"{ACTOR}.policy_loss"
TWO = {"updates": 2}
REFERENCE = {
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile": False,
    **{
        f"actor_rollout_ref.ref.fsdp_config.mixed_precision.{kind}": "fp32"
        for kind in ("param_dtype", "reduce_dtype", "buffer_dtype")
    },
}
MINI = {f"{ACTOR}.ppo_mini_batch_size": 8}
MICRO_64 = {
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 64,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 64,
}


@pytest.mark.parametrize(
    ("top", "keys"),
    [
        ({"loss": "gspo", **TWO}, {f"{LOSS}.loss_mode": "gspo", **MINI}),
        ({"loss": "gpg"}, {f"{LOSS}.loss_mode": "gpg"}),
        ({"loss": "clip_cov"}, {f"{LOSS}.loss_mode": "clip_cov"}),
        ({"loss": "kl_cov", **TWO}, {f"{LOSS}.loss_mode": "kl_cov", **MINI}),
        ({"loss": "geo_mean", "micro_batch_size": 64, **TWO}, {f"{LOSS}.loss_mode": "geo_mean", **MINI, **MICRO_64}),
        ({"epochs": 2}, {f"{ACTOR}.ppo_epochs": 2}),
        ({"clip": {"dual": 2.0}, **TWO}, {f"{ACTOR}.clip_ratio_c": 2.0, **MINI}),
        ({"entropy_coefficient": 0.01}, {f"{ACTOR}.entropy_coeff": 0.01}),
        (
            {"kl": {"route": "loss", "coefficient": 0.01, "estimator": "k2"}},
            {f"{ACTOR}.use_kl_loss": True, f"{ACTOR}.kl_loss_coef": 0.01, f"{ACTOR}.kl_loss_type": "mse", **REFERENCE},
        ),
        (
            {"kl": {"route": "reward", "coefficient": 0.01, "estimator": "k1"}},
            # verl's estimator is k1
            {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.kl_coef": 0.01, **REFERENCE},
        ),
        (
            {"kl": {"route": "reward", "target": 0.05, "horizon": 500}},
            {
                "algorithm.use_kl_in_reward": True,
                "algorithm.kl_penalty": "low_var_kl",
                "algorithm.kl_ctrl.type": "adaptive",
                "algorithm.kl_ctrl.target_kl": 0.05,
                "algorithm.kl_ctrl.horizon": 500,
                **REFERENCE,
            },
        ),
        (
            {"rollout_correction": {"mode": "decoupled", "weights": "token", "threshold": 5.0}},
            {f"{CORRECTION}.rollout_is": "token", f"{CORRECTION}.rollout_is_threshold": 5.0},
        ),
        (
            {"rollout_correction": {"mode": "decoupled", "reject": "seq_mean_k1", "bounds": [0.5, 2.0]}},
            {f"{CORRECTION}.rollout_rs": "seq_mean_k1", f"{CORRECTION}.rollout_rs_threshold": "0.5_2"},
        ),
        (
            {"rollout_correction": {"mode": "decoupled", "weights": "sequence", "reject": "seq_max_k3", "bounds": [2]}},
            {
                f"{CORRECTION}.rollout_is": "sequence",
                f"{CORRECTION}.rollout_rs": "seq_max_k3",
                f"{CORRECTION}.rollout_rs_threshold": "2",
            },
        ),
        (
            {"keep_groups": 0.25},
            {"trainer.v1.sampler.sampler_kwargs.keep_groups": 0.25, "data.gen_batch_size": 1},
        ),
        (
            {"credit": {"level": "turn", "weight": 0.25}},
            {"algorithm.adv_estimator": "forager_turn_grpo", "algorithm.turn_weight": 0.25},
        ),
    ],
)  # fmt: skip
def test_a_single_setting_changes_exactly_these_keys(top: dict[str, Any], keys: dict[str, Any]) -> None:
    base, config = flat(of_preset("grpo")), accepted(composed(with_rl("grpo", top)))
    micro = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"  # what any reference model needs
    # verl's own critic section follows the actor's by interpolation, without a critic.
    changed = {key: value for key, value in changes(base, flat(config)).items() if not key.startswith("critic.")}
    if need_reference_policy(config):
        assert changed.pop(micro) == 32
    assert changed == keys


@pytest.mark.parametrize(("loss", "updates"), [("ppo_clip", 2), ("reinforce", 1)])
def test_bypass_reaches_the_loss_as_well_as_the_trainer(loss: str, updates: int) -> None:
    asked = {"mode": "bypass", "loss": loss, "weights": "token" if loss == "reinforce" else None}
    config = accepted(composed(with_rl("grpo", {"rollout_correction": asked, "updates": updates})))
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "bypass_mode"
    assert config.actor_rollout_ref.actor.calculate_entropy
    handed, own = config.actor_rollout_ref.actor.policy_loss.rollout_correction, config.algorithm.rollout_correction
    assert handed.loss_type == own.loss_type == loss
    for key, value in handed.items():
        assert own[key] == value


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_critics_warm_up_is_of_as_many_steps(steps: int) -> None:
    rl = with_rl("ppo", {"critic": {"learning_rate": 1e-5, "warmup_steps": steps}}).rl
    first = algorithm_settings(rl, with_rl("ppo").episode)["trainer.critic_warmup"]
    # verl's condition for an update of the actor; its steps begin with 1 (trainer/ppo/v1/trainer_base.py:452, 608).
    assert [step for step in range(1, 6) if not first <= step] == list(range(1, steps + 1))


def test_the_off_policy_mask_is_a_loss_of_its_own_with_verls_vanilla_inside() -> None:
    config = accepted(composed(with_rl("grpo", {"off_policy_mask": 0.5, "updates": 2})))
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "forager_off_policy_mask"


def test_the_document_shows_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
    assert f"\n\n{markdown()}\n\n" in text, (
        "docs/algorithms.md: replace its table by what `python -m tasks.training.algorithms_table` prints"
    )


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "grpo"])
def test_the_table_has_every_key_that_differs_from_grpos(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = {key.strip("`"): value.strip("`") for name, _, key, value, _ in rows() if name == f"`{preset}`"}
    for key, value in yaml.safe_load((GOLDEN / f"{preset}.yaml").read_text(encoding="utf-8")).items():
        # The critic's own machinery and the sampler's copy follow from these keys.
        if not key.startswith(("critic.", "trainer.v1.sampler")) or key in shown:
            assert shown.get(key) == str(value), key


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in PRESETS:
        (GOLDEN / f"{name}.yaml").write_text(yaml.safe_dump(found(name)), encoding="utf-8")
