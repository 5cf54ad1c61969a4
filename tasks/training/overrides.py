"""Settings in Hydra's override grammar."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def hydra_overrides(settings: Mapping[str, object]) -> list[str]:
    """`key=value` for each setting; paths are quoted, since a clone's path may hold any character."""
    return [f"{key}={_quoted(value) if isinstance(value, Path) else value}" for key, value in settings.items()]


def _quoted(path: Path) -> str:
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
