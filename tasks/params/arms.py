"""The arms of an ablation: params/ablations/NAME.yaml, each an overlay of a few keys that lies over a profile.

The first line of a file is a comment, `# Teaches: ...`. The arm `baseline` changes nothing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tasks.errors import InputError
from tasks.params.resolution import overlay, read_yaml

FOLDER = Path("params/ablations")
BASELINE = "baseline"
# What is run when no arms are named: the mistakes that cost most, and the algorithms that differ most.
CORE = (BASELINE, "no-mask", "format-only", "no-sft", "dr_grpo", "dapo", "dapo_dr", "gspo", "turn-credit")
# Learning-impact selection: a run of several epochs on few questions, then the third of them that taught it most, and
# a third at random. Each needs the one before it, and `few` the rows of the baseline's seed: all three are run as soon
# as one is asked for, directly after the baseline.
SELECTION = ("few", "limr", "random")
_TEACHES = "# Teaches: "


@dataclass(frozen=True)
class Arm:
    """One switch: its name, what it teaches, and the keys that it lays over a profile."""

    name: str
    teaches: str
    overlay: dict[str, Any]

    def settings(self, seed: int) -> dict[str, Any]:
        """The keys with a seed, as a nested mapping."""
        return overlay({"seed": seed}, self.overlay)


def names() -> list[str]:
    """All arms: the baseline, the others of `CORE`, the rest by name, `SELECTION`."""
    found = {path.stem for path in FOLDER.glob("*.yaml")}
    return [*CORE, *sorted(found - {*CORE, *SELECTION}), *SELECTION]


def read(wanted: Sequence[str]) -> list[Arm]:
    """Read arms in the order in which they are to be run: the baseline, which all are compared with, comes first.

    Args:
        wanted: their names; the baseline need not be among them, nor those of `SELECTION` that another one needs.

    Raises:
        InputError: there is no such arm, or its file is no mapping or does not say what it teaches.
    """
    first = (BASELINE, *SELECTION) if set(SELECTION) & set(wanted) else (BASELINE,)
    return [_read(name) for name in dict.fromkeys([*first, *wanted])]


def _read(name: str) -> Arm:
    path, known = FOLDER / f"{name}.yaml", names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        mend = f"did you mean {near[0]!r}?" if near else f"arms are: {', '.join(known)}"
        raise InputError(f"no arm {name!r}", where=str(FOLDER), mend=mend)
    content = read_yaml(path)
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    if not first.startswith(_TEACHES):
        raise InputError(f"the first line must begin with {_TEACHES!r}", where=str(path))
    if "seed" in content:
        raise InputError("key 'seed': every arm is run with the same seeds", where=str(path), mend="name them: --seeds")
    return Arm(name, first.removeprefix(_TEACHES), content)


def options(settings: Mapping[str, Any]) -> list[str]:
    """A nested mapping as `SECTION=VALUE`, what `--set` takes and `parse_settings` reads back; a value is YAML."""
    return [f"{name}={_flow(value)}" for name, value in settings.items()]


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
