"""Settings in Hydra's override grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def hydra_overrides(settings: Mapping[str, object], verl: Mapping[str, Any] | None = None) -> list[str]:
    """`key=value` for each setting; paths are quoted, since a clone's path may hold any character.

    Args:
        settings: by verl's keys.
        verl: the user's own, nested or dotted; they come last and win.
    """
    own = [f"{key}={_quoted(value) if isinstance(value, Path) else value}" for key, value in settings.items()]
    return own + [f"{key}={json.dumps(value)}" for key, value in flatten(verl or {})]


def flatten(verl: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The user's settings as pairs of dotted key and value; an empty mapping is a value."""
    for key, value in verl.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def run_folder(scratch: Path) -> list[str]:
    """The override that keeps Hydra's own files out of the workspace."""
    return hydra_overrides({"hydra.run.dir": scratch / "hydra"})


def _quoted(path: Path) -> str:
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
