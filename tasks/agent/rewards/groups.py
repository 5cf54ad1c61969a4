"""What a group of rewards teaches: GRPO learns from differences within the group of one question."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

# verl adds this to the deviation it divides by (trainer/ppo/core_algos.py, compute_grpo_outcome_advantage's `epsilon`):
# of a smaller deviation only the noise of floating point would be left.
EPSILON = 1e-6


class GroupSignal(NamedTuple):
    """Mean and sample standard deviation of a group's rewards, and whether the group teaches anything."""

    mean: float
    std: float
    informative: bool


def group_signal(rewards: Sequence[float]) -> GroupSignal:
    """What the rewards of one question's rollouts teach.

    The deviation is the sample's (n - 1), as `torch.std` in verl's GRPO (trainer/ppo/core_algos.py:321): .469 for
    (0.1, 1.0, 0.0, 0.1). A group of equal rewards, all 0.1 or all 1.0, gives every rollout an advantage of 0.
    A group of one has nothing to be compared with: its deviation is 0 here.

    Raises:
        ValueError: the group is empty.
    """
    if not rewards:
        raise ValueError("a group without rewards")
    mean = fmean(rewards)
    std = stdev(rewards, xbar=mean) if len(rewards) > 1 else 0.0
    return GroupSignal(mean, std, std > EPSILON)


def groups_without_signal(rewards_by_group: Mapping[Hashable, Sequence[float]]) -> float:
    """Share of a step's groups without signal, in [0, 1].

    Args:
        rewards_by_group: the rewards of each group, by whatever tells groups apart.

    Raises:
        ValueError: there is no group, or one is empty.
    """
    if not rewards_by_group:
        raise ValueError("a step without groups")
    return fmean(not group_signal(rewards).informative for rewards in rewards_by_group.values())
