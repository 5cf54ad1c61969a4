"""Settings in Hydra's override grammar (hydra.cc/docs/1.3/advanced/override_grammar/basic)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def hydra_overrides(settings: Mapping[str, object], verl: Mapping[str, Any] | None = None) -> list[str]:
    """`key=value` for each setting; paths are quoted, since a clone's path may hold any character.

    Args:
        settings: by verl's keys, values in Hydra's grammar; those that are to be added have a `+`.
        verl: the user's own, nested or dotted, values as YAML has them; they come last and win.
    """
    own = [f"{key}={quoted(str(value)) if isinstance(value, Path) else value}" for key, value in settings.items()]
    # `++` sets what is there and adds what the YAML lacks; tasks/training/verl_schema has refused what verl has not.
    return own + [f"++{key}={rendered(value)}" for key, value in flatten(verl or {})]


def flatten(verl: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The user's settings as pairs of dotted key and value; an empty mapping is a value."""
    for key, value in verl.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def rendered(value: Any) -> str:
    """A value of YAML's in Hydra's grammar, where it comes out as the same value; `${...}` stays an interpolation."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{rendered(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(rendered, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return quoted(value)


def quoted(text: str) -> str:
    """Text between single quotes: Hydra takes a backslash for itself unless a quote follows its run of backslashes."""
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    return "'" + re.sub(r"(\\+)$", r"\1\1", escaped) + "'"


def run_folder(scratch: Path) -> list[str]:
    """The override that keeps Hydra's own files out of the workspace."""
    return hydra_overrides({"hydra.run.dir": scratch / "hydra"})
