"""Advantage estimators that verl does not have as we need them, by verl's own registry.

verl 0.9.1 divides what is left of equal rewards by a small constant: fifteen float32 rewards of .7 have a mean that is
off by a rounding, and GRPO (trainer/ppo/core_algos.py:321) makes an advantage of .1 of it. Here a group whose rewards
do not differ has an advantage of exactly 0. The names are ours since verl calls its own GRPO without the registry
(trainer/ppo/ray_trainer.py:235). Loaded by `verl_extensions` in every process of verl.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import (
    compute_grpo_outcome_advantage,
    compute_reinforce_plus_plus_outcome_advantage,
    compute_rloo_outcome_advantage,
    register_adv_est,
)

# Rewards closer than this, relative to the larger of 1 and the largest, are equal: float32's rounding of a sum is
# below, and verl's own epsilon beside a deviation is as large.
RESOLUTION = 1e-6

Estimate = tuple[torch.Tensor, torch.Tensor]


@register_adv_est("forager_grpo")
def grpo(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, config: Any, **_: Any
) -> Estimate:
    """GRPO (arXiv 2402.03300, section 4.1.2), or Dr. GRPO (arXiv 2503.20783) without `norm_adv_by_std_in_grpo`.

    verl's `compute_grpo_outcome_advantage` (core_algos.py:268), and 0 where the group's rewards do not differ. A
    rollout's reward is the sum of its row: with the KL in the reward, groups of equal outcomes differ by their KL.
    A group of one rollout has nothing to be compared with: 0, where verl takes the reward itself.

    Args:
        token_level_rewards: (rollouts, response length).
        response_mask: (rollouts, response length), 1 for a token that is trained on.
        index: (rollouts,), the group of each.
        config: verl's section `algorithm`.

    Returns:
        advantages and returns, the same tensor: (rollouts, response length).
    """
    advantages, _returns = compute_grpo_outcome_advantage(
        token_level_rewards=token_level_rewards,
        response_mask=response_mask,
        index=index,
        norm_adv_by_std_in_grpo=config.get("norm_adv_by_std_in_grpo", True),
    )
    return _where_rewards_differ(advantages, token_level_rewards, index)


@register_adv_est("forager_rloo")
def rloo(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, config: Any, **_: Any
) -> Estimate:
    """RLOO (arXiv 2402.14740): the reward less the mean of the group's others.

    verl's `compute_rloo_outcome_advantage` (core_algos.py:588), and 0 as in `grpo`, whose shapes are these.
    """
    advantages, _returns = compute_rloo_outcome_advantage(
        token_level_rewards=token_level_rewards, response_mask=response_mask, index=index, config=config
    )
    return _where_rewards_differ(advantages, token_level_rewards, index)


@register_adv_est("forager_reinforce_plus_plus")
def reinforce_plus_plus(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, config: Any, **_: Any
) -> Estimate:
    """REINFORCE++ (arXiv 2501.03262): the returns of all trained tokens of the batch, whitened.

    verl's `compute_reinforce_plus_plus_outcome_advantage` (core_algos.py:694), and 0 if the batch's returns do not
    differ. A reward at a token of mask 0 is lost in verl's recursion (:720): a response must end in a generated token.

    Returns:
        advantages and returns, each (rollouts, response length).
    """
    advantages, returns = compute_reinforce_plus_plus_outcome_advantage(
        token_level_rewards=token_level_rewards, response_mask=response_mask, config=config
    )
    if not _differ(returns[response_mask.bool()]):
        advantages = torch.zeros_like(advantages)
    return advantages, returns


@register_adv_est("forager_turn_grpo")
def turn_grpo(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, config: Any, **_: Any
) -> Estimate:
    """MT-GRPO (Zeng et al. 2025, arXiv 2505.11821): a token has its trajectory's advantage and its turn's own.

    A turn is a maximal run of mask 1. What stands at its tokens is its reward; the last turn's is the trajectory's
    outcome. With A(x) = GRPO's advantage of x in its group (as `grpo`), a token of turn k of trajectory i has

        A(outcome_i) + turn_weight x A(reward_ik)     in a turn before the last, among the group's k-th such turns
        A(outcome_i)                                  in the last turn

    Where this is not the paper's: that has two turns (or a tree of rollouts, so that every turn is compared from one
    state); here the number of turns is free, and a k-th turn is compared with the k-th turns of the group's other
    trajectories, as far as these have one before their last, though they may have seen other passages by then. Both
    advantages are divided by the deviation or neither, by `norm_adv_by_std_in_grpo`.

    A trajectory without a trained token has no turns; the sum of its row is its outcome, and counts in its group.

    Args:
        token_level_rewards, response_mask, index: as in `grpo`.
        config: verl's section `algorithm`, with `turn_weight`.

    Returns:
        advantages and returns, the same tensor: (rollouts, response length).

    Raises:
        ValueError: a reward stands at a token of mask 0 of a trajectory that has turns: nobody could be paid with it.
    """
    number = _turn_numbers(response_mask)
    turns = number.amax(dim=-1)
    if bool(((number == 0) & (token_level_rewards != 0) & (turns > 0)[:, None]).any()):
        raise ValueError("a reward stands at a token that nobody generated; turns are paid at their own tokens")
    # Column k holds turn k's reward; column 0 that of trajectories without turns, whose outcome it is.
    rewards = torch.zeros(len(turns), int(turns.max()) + 1, dtype=token_level_rewards.dtype, device=number.device)
    rewards.scatter_add_(1, number, token_level_rewards)
    own = torch.zeros_like(rewards)
    row, turn = torch.nonzero(_earlier(turns, rewards.shape[1]), as_tuple=True)
    if len(row):
        groups = np.array([f"{k}/{index[i]}" for i, k in zip(row.tolist(), turn.tolist(), strict=True)], dtype=object)
        own[row, turn] = _scalars(rewards[row, turn], groups, config)
    outcome = _scalars(rewards.gather(1, turns[:, None])[:, 0], index, config)
    advantages = (outcome[:, None] + config.get("turn_weight") * own.gather(1, number)) * response_mask
    return advantages, advantages


def _turn_numbers(response_mask: torch.Tensor) -> torch.Tensor:
    """The turn of each token, from 1; 0 where the mask is 0. Shape (rollouts, response length)."""
    mask = response_mask.long()
    before = torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    return ((mask == 1) & (before == 0)).long().cumsum(dim=-1) * mask


def _earlier(turns: torch.Tensor, columns: int) -> torch.Tensor:
    """Whether column k is a turn before the last: (rollouts, columns), from each rollout's number of turns."""
    column = torch.arange(columns, device=turns.device)
    return (column >= 1) & (column < turns[:, None])


def _scalars(rewards: torch.Tensor, index: np.ndarray, config: Any) -> torch.Tensor:
    """GRPO's advantage of each reward in its group: (rewards,)."""
    column = rewards[:, None]
    return grpo(column, torch.ones_like(column), index, config)[0][:, 0]


def _where_rewards_differ(advantages: torch.Tensor, rewards: torch.Tensor, index: np.ndarray) -> Estimate:
    totals = rewards.sum(dim=-1)
    _, group = np.unique(index.astype(str), return_inverse=True)
    kept = torch.zeros(len(totals), dtype=torch.bool, device=totals.device)
    for number in range(group.max() + 1):
        members = torch.as_tensor(group == number, device=totals.device)
        kept[members] = _differ(totals[members])
    advantages = torch.where(kept[:, None], advantages, torch.zeros_like(advantages))
    return advantages, advantages


def _differ(values: torch.Tensor) -> bool:
    """Whether values differ by more than rounding; not that of none or of one."""
    if len(values) < 2:
        return False
    low, high = values.aminmax()
    return bool(high - low > RESOLUTION * max(1.0, float(values.abs().max())))
