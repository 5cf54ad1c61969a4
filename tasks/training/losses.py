"""The policy loss that verl does not have: DeepSeek-V3.2's off-policy sequence mask over verl's clipped one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla, register_policy_loss
from verl.utils.torch_functional import masked_mean
from verl.workers.config import ActorConfig, PolicyLossConfig


@dataclass
class OffPolicyMaskConfig(PolicyLossConfig):
    """verl's section `actor.policy_loss` with one more key; Hydra makes it by `_target_`.

    verl's own (0.9.1, workers/config/actor.py) has no free key, and hands a loss nothing else of the configuration.

    Args:
        off_policy_delta: nats a token.
    """

    off_policy_delta: float | None = None

    def __post_init__(self) -> None:
        if self.off_policy_delta is None:
            raise ValueError("actor.policy_loss.off_policy_delta: a number of nats is needed")


@register_policy_loss("forager_off_policy_mask")
def off_policy_mask(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "token-mean",
    config: ActorConfig | None = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """PPO's clipped loss without the bad trajectories that the policy has left: DeepSeek-V3.2 (arXiv 2512.02556, 3.1).

    A token of trajectory i counts unless its advantage is negative and the mean over i's tokens of
    log(old / present probability) is above `off_policy_delta`. In the paper "old" is the engine's probability, so that
    both the engine's difference and the policy's drift count: rollout correction in mode `bypass`. Without it "old" is
    the trainer's own before the update, and the drift counts alone.

    The rest is verl's `compute_policy_loss_vanilla` (core_algos.py:1286). What is masked has an advantage of 0: it adds
    nothing, and still counts in every divisor, as in the paper's, so it makes no other token's gradient larger. A
    smaller response mask would, with `seq-mean-token-mean` and advantages that differ within a trajectory. The clip
    fractions and the KL are means over all tokens.

    Args:
        old_log_prob, log_prob, advantages, response_mask: (rollouts, response length).
        loss_agg_mode: how verl's `agg_loss` takes the mean.
        config: verl's section `actor`, whose `policy_loss` is an `OffPolicyMaskConfig`.
        rollout_is_weights: (rollouts, response length), of rollout correction in mode `decoupled`.

    Returns:
        the loss, and verl's metrics with `actor/off_policy_masked`: the share of the micro-batch's tokens left out.

    Raises:
        TypeError: the configuration brings no delta.
    """
    if config is None or not isinstance(config.policy_loss, OffPolicyMaskConfig):
        raise TypeError("loss forager_off_policy_mask needs actor.policy_loss of tasks.training.losses")
    with torch.no_grad():
        drift = masked_mean(old_log_prob - log_prob, response_mask, axis=-1)
        left = (advantages < 0) & (drift > config.policy_loss.off_policy_delta)[:, None]
        share = masked_mean(left.float(), response_mask)
    loss, metrics = compute_policy_loss_vanilla(
        old_log_prob=old_log_prob,
        log_prob=log_prob,
        advantages=advantages.masked_fill(left, 0.0),
        response_mask=response_mask,
        loss_agg_mode=loss_agg_mode,
        config=config,
        rollout_is_weights=rollout_is_weights,
    )
    return loss, {**metrics, "actor/off_policy_masked": share.item()}
