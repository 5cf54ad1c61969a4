"""Section rl: presets lie under the profile, and what could not act is refused with the way out."""

from pathlib import Path

import pytest
import yaml

from tasks import params
from tasks.errors import InputError
from tasks.params.algorithm import Rl

ALGORITHMS = sorted(path.stem for path in (Path(__file__).parents[2] / "params/presets/algorithms").glob("*.yaml"))
DECOUPLED = {"mode": "decoupled", "weights": "token"}
BYPASS = {"mode": "bypass"}


def asked(**rl):
    return params.resolve("tiny", {"rl": rl})["rl"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("profile", ["tiny", "hotpotqa-smollm2-cpu"])
def test_every_algorithm_goes_with_a_profile_of_the_project(workspace, algorithm: str, profile: str) -> None:
    preset = yaml.safe_load(Path(f"params/presets/algorithms/{algorithm}.yaml").read_text())["rl"]
    found = params.resolve(profile, {"rl": {"algorithm": algorithm}})["rl"]
    assert found["algorithm"] == algorithm
    assert params.overlay(found, preset) == found


def test_a_profile_and_a_single_setting_lie_over_the_algorithm(workspace) -> None:
    Path("params/mine.yaml").write_text("extends: tiny\nrl: {algorithm: dapo, clip: {high: 0.4}, updates: 4}")
    found = params.resolve("mine", {"rl": {"updates": 8}})["rl"]
    assert (found["clip"], found["updates"]) == ({"low": 0.2, "high": 0.4, "dual": 3.0}, 8)
    assert found["dynamic_sampling"] == {"metric": "success"}


def test_an_unknown_algorithm_is_refused_with_those_there_are(workspace) -> None:
    with pytest.raises(InputError, match=r"rl\.algorithm.*'grpo'.*'dapo'"):
        asked(algorithm="dap")


@pytest.mark.parametrize(
    ("rl", "words"),
    [
        # Sizes.
        ({"updates": 3}, "rl.updates: 3 optimizer steps a batch do not divide rl.prompts: 16"),
        ({"micro_batch_size": 48}, "rl.micro_batch_size: 48 must divide the 128 rollouts"),
        # The estimator.
        ({"samples": 1}, "rl.samples: 1 rollout a question has no group .*rl.advantage: grpo"),
        ({"samples": 1, "advantage": "rloo"}, "rl.samples: 1 rollout a question .*rl.advantage: rloo"),
        ({"advantage": "rloo", "std_normalisation": False}, "rl.std_normalisation: false cannot act"),
        ({"advantage": "rloo", "credit": {"level": "turn"}}, "rl.credit.level: turn is an estimator over groups"),
        ({"gamma": 0.9}, r"rl.gamma: 0.9 cannot act: grpo discounts nothing; set 1"),
        ({"lam": 0.9}, "rl.lam: 0.9 cannot act without a critic"),
        ({"advantage": "gae"}, "rl.critic: advantage gae needs a critic; give it"),
        ({"critic": {"learning_rate": 1e-5}}, "rl.critic: cannot act, since no critic is trained"),
        (
            {"algorithm": "ppo", "critic": {"learning_rate": 1e-5, "warmup_steps": 20}},
            "rl.critic.warmup_steps: 20 leave the policy none of rl.steps: 20",
        ),
        ({"credit": {"weight": 0.7}}, "rl.credit.weight: cannot act with level: trajectory"),
        # Ratios, which are 1 with one update a batch.
        ({"loss": "gspo"}, "rl.loss: gspo cannot act: with one update .* take rl.updates: 2 or more"),
        ({"loss": "kl_cov"}, "rl.loss: kl_cov cannot act"),
        ({"loss": "geo_mean"}, "rl.loss: geo_mean cannot act"),
        ({"clip": {"high": 0.28}}, "rl.clip: cannot act: with one update"),
        ({"clip": {"dual": 4.0}}, "rl.clip: cannot act: with one update"),
        ({"off_policy_mask": 0.1}, "rl.off_policy_mask: cannot act: .*or rollout_correction.mode: bypass"),
        ({"updates": 2, "loss": "gspo", "clip": {"dual": 4.0}}, "rl.clip.dual: only loss vanilla clips twice"),
        ({"updates": 2, "loss": "gpg", "clip": {"high": 0.28}}, "rl.clip: loss gpg clips no ratio"),
        ({"updates": 2, "loss": "kl_cov", "clip": {"high": 0.28}}, "rl.clip: loss kl_cov clips no ratio"),
        (
            {"updates": 2, "loss": "geo_mean", "micro_batch_size": 64, "aggregation": "seq-mean-token-sum"},
            "rl.aggregation: loss geo_mean has its own; set token-mean",
        ),
        ({"updates": 2, "loss": "gspo", "off_policy_mask": 0.1}, "rl.off_policy_mask: is laid over loss vanilla alone"),
        # KL.
        ({"kl": {"coefficient": 0.1}}, "rl.kl: coefficient, .* cannot act with route: none; set loss or reward"),
        ({"kl": {"route": "loss", "target": 0.1}}, "rl.kl.target: the adaptive controller acts on the reward alone"),
        ({"kl": {"route": "reward", "horizon": 5}}, "rl.kl.horizon: is the adaptive controller's"),
        # Groups.
        (
            {"samples": 1, "advantage": "reinforce_plus_plus", "dynamic_sampling": {"metric": "success"}},
            "rl.dynamic_sampling: groups of 1 rollout are never mixed",
        ),
        (
            {"samples": 1, "advantage": "reinforce_plus_plus", "keep_groups": 0.5},
            "rl.keep_groups: groups of 1 rollout have no deviation",
        ),
        ({"keep_groups": 0.5, "dynamic_sampling": {"metric": "reward"}}, "both choose the groups; set one of them"),
        ({"dynamic_sampling": {"max_batches": 1}}, "rl.dynamic_sampling.max_batches"),
        ({"keep_groups": 0.0}, "rl.keep_groups"),
        ({"keep_groups": 0.99999999}, "rl.keep_groups: .* of so few groups drops none"),
        # Rollout correction.
        (
            {"algorithm": "ppo", "rollout_correction": {**DECOUPLED, "reject": "token_k3", "bounds": [2.0]}},
            "reject: token_k3 may reject the token that the reward stands at, and gae would lose it",
        ),
        (
            {
                "advantage": "reinforce_plus_plus",
                "rollout_correction": {**DECOUPLED, "reject": "token_k1", "bounds": [0.5, 2.0]},
            },
            "reject: token_k1 may reject .* and reinforce_plus_plus would lose it",
        ),
        ({"rollout_correction": {"mode": "decoupled"}}, "corrects nothing without weights or reject"),
        ({"rollout_correction": {**DECOUPLED, "reject": "token_k1"}}, "reject and bounds go together"),
        ({"rollout_correction": {**DECOUPLED, "bounds": [2.0]}}, "reject and bounds go together"),
        (
            {"rollout_correction": {**DECOUPLED, "reject": "token_k3", "bounds": [0.5, 2.0]}},
            "bounds: token_k3 has an upper bound alone; give one number",
        ),
        (
            {"rollout_correction": {**DECOUPLED, "reject": "token_k1", "bounds": [2.0, 0.5]}},
            "bounds: the lower one must be below the upper one",
        ),
        (
            {"rollout_correction": {**DECOUPLED, "reject": "seq_mean_k1", "bounds": [0.5]}},
            "bounds: 0.5 alone is seq_mean_k1's upper bound, and 1 over it the lower; take more than 1",
        ),
        (
            {"rollout_correction": {"mode": "decoupled", "reject": "token_k3", "bounds": [2.0], "threshold": 5.0}},
            "threshold: cuts the weights, and there are none",
        ),
        ({"rollout_correction": {**DECOUPLED, "loss": "reinforce"}}, "loss: reinforce acts with mode: bypass alone"),
        ({"rollout_correction": BYPASS, "loss": "gpg"}, "bypass has a loss of its own"),
        ({"rollout_correction": {**BYPASS, "weights": "token"}}, "weights: are not applied with bypass and ppo_clip"),
        (
            {"rollout_correction": {**BYPASS, "loss": "reinforce"}, "clip": {"high": 0.28}},
            "rl.clip: cannot act: loss reinforce clips nothing",
        ),
        (
            {"rollout_correction": {**BYPASS, "loss": "reinforce"}, "off_policy_mask": 0.1},
            "rl.off_policy_mask: goes with rl.rollout_correction.loss: ppo_clip",
        ),
        ({"rollout_correction": DECOUPLED, "mask_observations": False}, "the engine has no probabilities of what"),
    ],
)
def test_what_cannot_act_is_refused_with_the_way_out(workspace, rl: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        asked(**rl)


@pytest.mark.parametrize(
    "rl",
    [
        {"updates": 2, "clip": {"high": 0.28, "dual": 4.0}},
        {"epochs": 2, "loss": "gspo"},
        {"loss": "clip_cov"},  # leaves out tokens whatever the ratio is
        {"rollout_correction": BYPASS, "off_policy_mask": 0.1},
        {"rollout_correction": BYPASS, "clip": {"high": 0.28}},
        {"rollout_correction": {**BYPASS, "loss": "reinforce", "weights": "sequence", "threshold": 5.0}},
        {"rollout_correction": {**DECOUPLED, "reject": "seq_mean_k1", "bounds": [0.5, 2.0]}},
        {"kl": {"route": "reward", "target": 0.1, "horizon": 500}},
        {"samples": 1, "advantage": "reinforce_plus_plus"},
        {"advantage": "gae", "critic": {"learning_rate": 1e-5}, "lam": 0.95},
        {"keep_groups": 0.25},
        {"rollout_correction": {**DECOUPLED, "reject": "token_k3", "bounds": [2.0]}},
        {"algorithm": "ppo", "rollout_correction": {**DECOUPLED, "reject": "seq_max_k3", "bounds": [2.0]}},
        {"algorithm": "ppo", "critic": {"learning_rate": 1e-5, "warmup_steps": 19}},
        {"rollout_correction": {**DECOUPLED, "reject": "seq_mean_k1", "bounds": [1.5]}},
    ],
)
def test_what_can_act_is_taken(workspace, rl: dict) -> None:
    found = asked(**rl)
    assert params.overlay(found, rl) == found


@pytest.mark.parametrize(
    ("rl", "mini_batch", "on_policy"),
    [
        ({}, 128, True),
        ({"updates": 4}, 32, False),
        ({"epochs": 2}, 128, False),
        ({"rollout_correction": BYPASS}, 128, False),
    ],
)
def test_sizes_follow_from_the_section(workspace, rl: dict, mini_batch: int, on_policy: bool) -> None:
    section = Rl.model_validate(asked(**rl))
    assert (section.mini_batch, section.on_policy) == (mini_batch, on_policy)
