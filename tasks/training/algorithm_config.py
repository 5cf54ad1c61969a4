"""The algorithm in verl's own keys: what `rl.advantage`, `rl.loss`, `rl.kl` and their like become.

docs/algorithms.md shows the table, a preset a section; tests/training/golden/ holds what each preset resolves to.
"""

from __future__ import annotations

from tasks.params import Episode, Rl

ACTOR, ALGORITHM, ROLLOUT = "actor_rollout_ref.actor", "algorithm", "actor_rollout_ref.rollout"
# verl's estimators, less the noise that rounding makes of groups without differences: tasks/training/estimators.py.
ESTIMATORS = {
    ("grpo", "trajectory"): "forager_grpo",
    ("grpo", "turn"): "forager_turn_grpo",
    ("rloo", "trajectory"): "forager_rloo",
    ("reinforce_plus_plus", "trajectory"): "forager_reinforce_plus_plus",
    ("gae", "trajectory"): "gae",
}
OFF_POLICY_MASK = "forager_off_policy_mask"  # tasks/training/losses.py
_VERLS_KL = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}


def algorithm_settings(rl: Rl, episode: Episode) -> dict[str, object]:
    """Verl's keys of the algorithm, and nothing else of a run.

    Args:
        rl: the rl section.
        episode: the episode section: its response budget is Dr. GRPO's constant.
    """
    return {
        f"{ALGORITHM}.adv_estimator": ESTIMATORS[rl.advantage, rl.credit.level],
        f"{ALGORITHM}.norm_adv_by_std_in_grpo": rl.std_normalisation,
        f"{ALGORITHM}.gamma": rl.gamma,
        f"{ALGORITHM}.lam": rl.lam,
        **({f"+{ALGORITHM}.turn_weight": rl.credit.weight} if rl.credit.level == "turn" else {}),
        **_loss(rl, episode),
        **_kl(rl),
        **_groups(rl),
        **_critic(rl),
    }


def _loss(rl: Rl, episode: Episode) -> dict[str, object]:
    constant = rl.aggregation == "seq-mean-token-sum-norm"
    settings: dict[str, object] = {
        f"{ACTOR}.policy_loss.loss_mode": rl.loss if rl.off_policy_mask is None else OFF_POLICY_MASK,
        f"{ACTOR}.loss_agg_mode": rl.aggregation,
        f"{ACTOR}.loss_scale_factor": episode.max_response_tokens if constant else "null",
        f"{ACTOR}.clip_ratio": rl.clip.low,
        f"{ACTOR}.clip_ratio_low": rl.clip.low,
        f"{ACTOR}.clip_ratio_high": rl.clip.high,
        f"{ACTOR}.clip_ratio_c": rl.clip.dual,
        f"{ACTOR}.entropy_coeff": rl.entropy_coefficient,
        f"{ACTOR}.ppo_mini_batch_size": rl.prompts // rl.updates,
        f"{ACTOR}.ppo_epochs": rl.epochs,
    }
    one = rl.rollout_correction
    if one is not None:
        correction: dict[str, object] = {
            "bypass_mode": one.mode == "bypass",
            "loss_type": one.loss,
            "rollout_is": one.weights or "null",
            "rollout_is_threshold": one.threshold,
            "rollout_rs": one.reject or "null",
            "rollout_rs_threshold": "null" if one.bounds is None else _bounds(one.bounds),
        }
        settings |= {f"{ALGORITHM}.rollout_correction.{key}": value for key, value in correction.items()}
        if one.mode == "bypass":
            # Entropy comes with verl's old log-probabilities, which are not computed here: the update reports it.
            settings[f"{ACTOR}.calculate_entropy"] = True
        if one.mode == "bypass" and rl.off_policy_mask is None:
            # verl 0.9.1's V1 trainer hands neither the loss nor its settings on (trainer/ppo/v1/trainer_base.py:1639;
            # the older ray_trainer.py:1575 does).
            settings[f"{ACTOR}.policy_loss.loss_mode"] = "bypass_mode"
            settings |= {f"+{ACTOR}.policy_loss.rollout_correction.{key}": value for key, value in correction.items()}
    if rl.off_policy_mask is not None:
        settings[f"{ACTOR}.policy_loss._target_"] = "tasks.training.losses.OffPolicyMaskConfig"
        settings[f"+{ACTOR}.policy_loss.off_policy_delta"] = rl.off_policy_mask
    return settings


def _bounds(bounds: list[float]) -> str:
    """Verl's `lower_upper`, in quotes: Hydra reads 0.5_2 as the number 0.52."""
    return "'" + "_".join(f"{bound:g}" for bound in bounds) + "'"


def _kl(rl: Rl) -> dict[str, object]:
    settings: dict[str, object] = {
        f"{ALGORITHM}.use_kl_in_reward": rl.kl.route == "reward",
        f"{ACTOR}.use_kl_loss": rl.kl.route == "loss",
    }
    if rl.kl.route == "loss":
        settings |= {
            f"{ACTOR}.kl_loss_coef": rl.kl.coefficient,
            f"{ACTOR}.kl_loss_type": _VERLS_KL[rl.kl.estimator],
        }
    if rl.kl.route == "reward":
        settings |= {
            f"{ALGORITHM}.kl_penalty": _VERLS_KL[rl.kl.estimator],
            f"{ALGORITHM}.kl_ctrl.type": "fixed" if rl.kl.target is None else "adaptive",
            f"{ALGORITHM}.kl_ctrl.kl_coef": rl.kl.coefficient,
            f"{ALGORITHM}.kl_ctrl.horizon": rl.kl.horizon,
        }
        if rl.kl.target is not None:
            settings[f"{ALGORITHM}.kl_ctrl.target_kl"] = rl.kl.target
    if rl.kl.route != "none":
        micro_batch = min(rl.micro_batch_size, rl.mini_batch)
        settings["actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"] = micro_batch
    return settings


def _groups(rl: Rl) -> dict[str, object]:
    """Which groups are trained on, for tasks/training/replay_buffer.py: verl hands a sampler `sampler_kwargs` alone."""
    sampler = "+trainer.v1.sampler.sampler_kwargs"
    settings: dict[str, object] = {f"{sampler}.filter_groups": f"${{{ALGORITHM}.filter_groups}}"}
    if rl.dynamic_sampling is not None:
        settings |= {
            f"{ALGORITHM}.filter_groups.enable": True,
            f"{ALGORITHM}.filter_groups.metric": rl.dynamic_sampling.metric,
            f"{ALGORITHM}.filter_groups.max_num_gen_batches": rl.dynamic_sampling.max_batches,
        }
    if rl.keep_groups < 1:
        # More than a batch is generated, so prompts are fetched one by one, as verl does where it filters.
        settings |= {f"{sampler}.keep_groups": rl.keep_groups, "data.gen_batch_size": 1}
    return settings


def _critic(rl: Rl) -> dict[str, object]:
    if rl.critic is None:
        return {}
    # verl's steps begin with 1, and the actor is trained from step `critic_warmup` on (trainer_base.py:608).
    first = rl.critic.warmup_steps + 1 if rl.critic.warmup_steps else 0
    return {"critic.optim.lr": rl.critic.learning_rate, "trainer.critic_warmup": first}
