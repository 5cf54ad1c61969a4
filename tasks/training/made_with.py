"""What parameters the outputs in data/ were made with, as far as DVC knows: `dvc.lock` keeps their values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.contract import UPSTREAM
from tasks.params import RESOLVED, read_yaml
from tasks.training.overrides import flatten

LOCK = Path("dvc.lock")


def changed_since(stage: str, content: Mapping[str, Any]) -> list[str]:
    """Keys that now have another value than when a stage, or one before it, ran last; none where DVC ran nothing.

    Args:
        stage: whose output it is.
        content: all parameters, resolved, as they were written.
    """
    if not LOCK.is_file():
        return []
    locked = read_yaml(LOCK).get("stages", {})
    found: dict[str, None] = {}
    for one in _up_to(stage):
        for key, before in locked.get(one, {}).get("params", {}).get(str(RESOLVED), {}).items():
            was, now = (dict(flatten({key: value})) for value in (before, at(content, key)))
            found |= dict.fromkeys(leaf for leaf in {**was, **now} if not _same(was.get(leaf), now.get(leaf)))
    return list(found)


def _same(locked: Any, now: Any) -> bool:
    # DVC writes YAML 1.2, where 1e-06 is a number; PyYAML reads 1.1, where it is text.
    return locked == now or (isinstance(now, float) and isinstance(locked, str) and locked == repr(now))


def at(content: Any, key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    for name in key.split("."):
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def _up_to(stage: str) -> dict[str, None]:
    before = [name for one in UPSTREAM[stage] for name in _up_to(one)]
    return dict.fromkeys([*before, stage])
