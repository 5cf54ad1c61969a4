"""The climb: exact match and searches a question over RL steps, by kind of question, in one figure of two panels.

    python -m tasks.evaluation.climb [--out docs/images/climb.png]

It shows the validations that stage rl has left in data/rl/figures.json: greedy, the same questions each time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tasks.errors import InputError, exit_on_input_error
from tasks.evaluation.charts import LIGHT, PAGE, Palette, as_svg, name_lines, plain_axes, write_png
from tasks.evaluation.intervals import Interval, rate_interval
from tasks.files import read_json

FIGURES = Path("data/rl/figures.json")
PICTURE = Path("docs/images/climb.png")
CONFIDENCE = 0.95
_ALL = "all"

Validation = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Point:
    """One kind of question at one validation: share answered exactly with its interval, searches a question."""

    step: int
    em: Interval
    searches: float


def read(path: Path) -> Validation:
    """The validations `{step: {kind: {em, searches, n}}}` in stage rl's figures.

    Raises:
        InputError: there are no figures, or no validations in them.
    """
    if not path.is_file():
        raise InputError("no RL run to draw", where=str(path), mend="run `dvc repro rl`")
    found = read_json(path).get("validation")
    if not found:
        raise InputError("no validations in these figures", where=str(path), mend="run `dvc repro rl`")
    return found


def climbs(validation: Validation) -> dict[str, list[Point]]:
    """Points of every kind of question, steps ascending; a kind may be absent from any step.

    The line of all questions is left out where there is one kind only, whose line it would repeat.

    Args:
        validation: what `read` returns; step numbers as text, in any order.
    """
    found: dict[str, list[Point]] = {}
    for step in sorted(validation, key=int):
        for kind, at in validation[step].items():
            answers = np.arange(at["n"]) < round(at["em"] * at["n"])
            point = Point(int(step), rate_interval(answers.astype(float), CONFIDENCE), at["searches"])
            found.setdefault(kind, []).append(point)
    if len(found) == 2:
        found.pop(_ALL, None)
    return found


def svg(validation: Validation) -> str:
    """The figure as an SVG element in the page's colours."""
    with mpl.rc_context({**PAGE.style(), "svg.hashsalt": "climb"}):
        return as_svg(_draw(climbs(validation), PAGE))


def _draw(lines: Mapping[str, list[Point]], palette: Palette) -> Figure:
    figure = Figure(figsize=(9.4, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (kind, points) in enumerate(lines.items()):
        look: dict[str, Any] = {"color": palette.series[number % len(palette.series)], "linewidth": 2.0}
        if kind == _ALL:
            look = {"color": palette.ink, "linewidth": 1.3, "linestyle": (0, (4, 2))}
        steps = [point.step for point in points]
        left.plot(steps, [point.em.mean for point in points], **look, marker="o", markersize=3.5)
        right.plot(steps, [point.searches for point in points], **look, marker="o", markersize=3.5)
        if kind != _ALL:
            lows, highs = [point.em.low for point in points], [point.em.high for point in points]
            left.fill_between(steps, lows, highs, color=look["color"], alpha=0.13, linewidth=0)
    left.set_title("Exact match, with its 95 % interval", loc="left", fontsize=10)
    right.set_title("Searches a question", loc="left", fontsize=10)
    left.set_ylim(-0.02, 1.02)
    right.set_ylim(0, 1.1 * max(1.0, *(point.searches for points in lines.values() for point in points)))
    name_lines(left, [f"{kind} {points[-1].em.mean:.2f}" for kind, points in lines.items()])
    name_lines(right, [f"{kind} {points[-1].searches:.1f}" for kind, points in lines.items()])
    steps = sorted({point.step for points in lines.values() for point in points})
    for axes in (left, right):
        axes.set_xlabel("RL step")
        plain_axes(axes, palette)
        axes.set_xticks(steps[:: -(-len(steps) // 10)])
    return figure


def main(arguments: Sequence[str]) -> int:
    """Draw the climb of the last RL run."""
    parser = argparse.ArgumentParser(prog="python -m tasks.evaluation.climb", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE, help=f"the PNG file (default {PICTURE})")
    out = parser.parse_args(arguments).out
    with exit_on_input_error("climb"):
        lines = climbs(read(FIGURES))
        with mpl.rc_context(LIGHT.style()):
            write_png(_draw(lines, LIGHT), out)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
