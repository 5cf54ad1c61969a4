"""What judges an answer exactly, by the name that a row of data gives."""

from __future__ import annotations

from typing import Any

from tasks.agent.rewards.answers import Judge, exact_match
from tasks.agent.rewards.gaia import quasi_exact_match
from tasks.errors import InputError

SCORERS: dict[str, Judge] = {"squad": exact_match, "gaia": quasi_exact_match}


def scorer_of(row: dict[str, Any]) -> Judge:
    """The scorer that `reward_model.ground_truth.scorer` of a row names; SQuAD's where it names none.

    Raises:
        InputError: there is no such scorer.
    """
    name = row["reward_model"]["ground_truth"].get("scorer") or "squad"
    if name not in SCORERS:
        where = f"row {row['extra_info']['id']}, reward_model.ground_truth.scorer"
        raise InputError(f"no scorer {name!r}", where=where, mend=f"scorers are: {', '.join(SCORERS)}")
    return SCORERS[name]
