"""Small files, written aside and renamed, so that nobody ever reads half of one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tasks.errors import InputError


def write_text_aside(path: Path, text: str) -> None:
    """Write a file under another name and rename it, so that nobody ever reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


def write_json(path: Path, content: Any) -> None:
    """Write JSON aside and rename it; NaN is refused, as JSON has none."""
    write_text_aside(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file that an earlier stage wrote.

    Raises:
        InputError: it is missing or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no such file", where=str(path), mend="run the earlier stages with `dvc repro`") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}", where=str(path)) from None
