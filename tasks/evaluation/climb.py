"""The climb: exact match and searches a question over RL steps, by kind of question, in one figure of two panels.

    python -m tasks.evaluation.climb [--out docs/images/climb.png]

It shows the validations that stage rl has left in data/rl/figures.json: greedy, the same questions each time.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasks.errors import InputError, exit_on_input_error
from tasks.evaluation.charts import PAGE, Palette, as_svg, plain_axes
from tasks.evaluation.intervals import Interval, rate_interval
from tasks.files import read_json

FIGURES = Path("data/rl/figures.json")
PICTURE = Path("docs/images/climb.png")
CONFIDENCE = 0.95
# The light colours of report.html.j2.
_LIGHT = Palette("#3f474f", "#e2e0da", ("#1c6b57", "#c9772b", "#3d6fb0", "#9c4f8d", "#7d8a2e", "#b3412e"))
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


def write_png(validation: Validation, path: Path) -> None:
    """The figure as a picture on white; the old one is replaced when the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    with mpl.rc_context(_LIGHT.style()):
        figure = _draw(climbs(validation), _LIGHT)
        figure.savefig(aside, format="png", dpi=170, facecolor="white", metadata={"Software": None})
    os.replace(aside, path)


def spread(values: Sequence[float], gap: float, top: float) -> list[float]:
    """The values moved as far as it takes to lie at least `gap` apart and below `top`; their order is kept."""
    order = sorted(range(len(values)), key=lambda n: values[n])
    placed = list(values)
    for below, n in pairwise(order):
        placed[n] = max(placed[n], placed[below] + gap)
    limit = top
    for n in reversed(order):
        placed[n] = min(placed[n], limit)
        limit = placed[n] - gap
    return placed


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
    colours = [line.get_color() for line in left.lines]
    _label(left, [f"{kind} {points[-1].em.mean:.2f}" for kind, points in lines.items()], colours)
    _label(right, [f"{kind} {points[-1].searches:.1f}" for kind, points in lines.items()], colours)
    steps = sorted({point.step for points in lines.values() for point in points})
    for axes in (left, right):
        axes.set_xlabel("RL step")
        plain_axes(axes, palette)
        axes.set_xticks(steps[:: -(-len(steps) // 10)])
    return figure


def _label(axes: Axes, texts: Sequence[str], colours: Sequence[Any]) -> None:
    """Name every line at its end, the names clear of each other."""
    ends = [float(np.asarray(line.get_ydata())[-1]) for line in axes.lines]
    low, high = axes.get_ylim()
    for text, y, colour in zip(texts, spread(ends, 0.075 * (high - low), high), colours, strict=True):
        place: dict[str, Any] = {
            "xycoords": axes.get_yaxis_transform(),
            "textcoords": "offset points",
            "annotation_clip": False,
        }
        axes.annotate(text, (1.0, y), (4, 0), **place, color=colour, va="center", fontsize=9)


def main(arguments: Sequence[str]) -> int:
    """Draw the climb of the last RL run."""
    parser = argparse.ArgumentParser(prog="python -m tasks.evaluation.climb", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE, help=f"the PNG file (default {PICTURE})")
    out = parser.parse_args(arguments).out
    with exit_on_input_error("climb"):
        write_png(read(FIGURES), out)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
