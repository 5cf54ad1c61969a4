"""The question files that some arms train on; they come from a run before.

DVC watches data/sources, so each arm must find there what it found the last time: only then are its results restored.
The files therefore come and go with the arms, in a folder of their own.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tasks.params.arms import SELECTION

FOLDER = Path("data/sources/ablations")


def remove() -> None:
    """Leave no file of an arm's own."""
    shutil.rmtree(FOLDER, ignore_errors=True)


def commands(arm: str) -> list[list[str]]:
    """What is to be run before an arm, as modules with their arguments; what no arm after it needs is removed.

    `limr` and `random` are selected together, from the run of `few` that came just before.
    """
    few, limr, random = SELECTION
    files = {name: str(FOLDER / f"{name}.jsonl") for name in SELECTION}
    if arm == few:
        remove()
        return [["tasks.ablation.few", files[few]]]
    if arm == limr:
        return [
            ["tasks.select", "--out", files[limr]],
            ["tasks.select", "--random", "--out", files[random]],
        ]
    if arm != random:
        remove()
    return []
