"""Small files, written aside and renamed, so that nobody ever reads half of one."""

from __future__ import annotations

import argparse
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


def output_file(text: str) -> Path:
    """The type of an argument that names a file to write, for argparse: what cannot be one is refused before any work.

    Raises:
        argparse.ArgumentTypeError: it is a folder, or the folder that would take it cannot be written to.
    """
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {there} is no folder that one may write to")
    return path
