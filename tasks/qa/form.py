"""The form of a row that verl and the agent read, as plain checks."""

from __future__ import annotations

from typing import Any

COLUMNS = ("data_source", "environment", "agent_name", "prompt", "ability", "reward_model", "extra_info")
EXTRA_INFO = ("index", "split", "id", "question", "golden_answers", "hops", "supporting_titles", "gold_passage_ids")


def prompt_fault(prompt: Any) -> str | None:
    """What keeps a prompt from being a conversation that the policy can continue."""
    messages = [] if prompt is None else list(prompt)
    if not messages or any(not (isinstance(m, dict) and m.get("role") and m.get("content")) for m in messages):
        return "prompt: a message without role or content"
    return None if messages[-1]["role"] == "user" else "prompt: does not end with the user"


def row_faults(row: dict[str, Any]) -> list[str]:
    """What keeps a row from being one that verl and the agent read; empty when nothing does."""
    faults = []
    if (fault := prompt_fault(row["prompt"])) is not None:
        faults.append(fault)
    reward_model = row["reward_model"]
    if not isinstance(reward_model, dict) or reward_model.get("style") != "rule":
        faults.append("reward_model: style is not 'rule'")
    elif reward_model.get("ground_truth") is None:
        faults.append("reward_model: no ground truth")
    info = row["extra_info"]
    missing = [key for key in EXTRA_INFO if not isinstance(info, dict) or info.get(key) is None]
    if missing:
        faults.append(f"extra_info: without {', '.join(missing)}")
    elif not len(info["golden_answers"]):
        faults.append("extra_info: no golden answer")
    return faults
