"""All known causes, in the order in which one brings about the next, and which follow from which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tasks.diagnosis.behaviour import form, reward, tools
from tasks.diagnosis.copies import copies
from tasks.diagnosis.engine import engine
from tasks.diagnosis.finding import Finding
from tasks.diagnosis.groups import groups
from tasks.diagnosis.hops import hops
from tasks.diagnosis.learning_rate import learning_rate
from tasks.diagnosis.mask import mask
from tasks.diagnosis.order import order
from tasks.diagnosis.retrieval import retrieval
from tasks.diagnosis.run_data import RunData
from tasks.diagnosis.truncation import truncation

# Each cause, and those that usually bring it about: where one of them applies as well, it is to be mended first.
CAUSES: dict[str, tuple[Callable[[RunData], Finding], tuple[str, ...]]] = {
    "order": (order, ()),
    "copied-answers": (copies, ()),
    "engine": (engine, ()),
    "mask": (mask, ()),
    "tools": (tools, ()),
    "retrieval": (retrieval, ("tools", "format")),
    "reward": (reward, ()),
    "learning-rate": (learning_rate, ("engine", "mask")),
    "truncation": (truncation, ("learning-rate", "mask")),
    "format": (form, ("truncation", "learning-rate", "mask")),
    "hops": (
        hops,
        (
            "order", "copied-answers", "engine", "mask", "tools", "retrieval", "reward", "learning-rate", "truncation",
            "format",
        ),
    ),
    "groups": (
        groups,
        ("order", "copied-answers", "tools", "retrieval", "reward", "learning-rate", "truncation", "hops"),
    ),
}  # fmt: skip


def diagnose(data: RunData) -> list[Finding]:
    """A finding a cause: those that apply first, and of these the ones that do not follow from others."""
    found = {name: examine(data) for name, (examine, _) in CAUSES.items()}
    applies = {name for name, one in found.items() if one.verdict == "applies"}
    placed = [
        replace(one, follows=tuple(other for other in CAUSES[name][1] if other in applies)) if name in applies else one
        for name, one in found.items()
    ]
    rank = {"applies": 0, "not examined": 2, "fine": 3}
    return sorted(placed, key=lambda one: rank[one.verdict] + (one.verdict == "applies" and bool(one.follows)))


__all__ = ["CAUSES", "diagnose"]
