"""Rewards as small pure functions, and the one table of them; docs/rewards.md shows it and says how to choose."""

from tasks.agent.rewards.answers import YES_NO, cover_em, exact_match, f1, holds_answer, matchable, normalise
from tasks.agent.rewards.gaia import quasi_exact_match
from tasks.agent.rewards.groups import GroupSignal, group_signal, groups_without_signal
from tasks.agent.rewards.scorers import SCORERS, scorer_of
from tasks.agent.rewards.scoring import RewardParams, reward_parts
from tasks.agent.rewards.table import REWARDS

__all__ = [
    "REWARDS",
    "SCORERS",
    "YES_NO",
    "GroupSignal",
    "RewardParams",
    "cover_em",
    "exact_match",
    "f1",
    "group_signal",
    "groups_without_signal",
    "holds_answer",
    "matchable",
    "normalise",
    "quasi_exact_match",
    "reward_parts",
    "scorer_of",
]
