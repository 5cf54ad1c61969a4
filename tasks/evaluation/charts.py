"""Charts over RL steps: SVG in the page's own colours, which follow light and dark, and pictures on white."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Palette:
    """Colours of a chart: text, axes and grid, and the lines in turn."""

    ink: str
    line: str
    series: tuple[str, ...]

    def style(self) -> dict[str, Any]:
        """Matplotlib's settings in these colours."""
        return {
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 9,
            "text.color": self.ink,
            "axes.edgecolor": self.line,
            "axes.labelcolor": self.ink,
            "xtick.color": self.ink,
            "ytick.color": self.ink,
        }


# Matplotlib knows no CSS variables: these colours stand for them while drawing and are replaced in the SVG.
PAGE = Palette("#010203", "#040506", ("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06"))
_CSS = {
    PAGE.ink: "var(--muted)",
    PAGE.line: "var(--line)",
    **{colour: f"var(--series-{n})" for n, colour in enumerate(PAGE.series)},
}
# For pictures: lines and grid in the light colours of page.css, text a shade darker than the page's --muted,
# since a picture is mostly seen smaller than it was drawn.
LIGHT = Palette("#3f474f", "#e2e0da", ("#1c6b57", "#c9772b", "#3d6fb0", "#9c4f8d", "#7d8a2e", "#b3412e"))


@dataclass(frozen=True)
class Panel:
    """A chart of one metric over the steps."""

    title: str
    metric: str


PANELS = (
    Panel("Reward of the rollouts", "episode/score"),
    Panel("Entropy of the policy", "actor/entropy"),
    Panel("Length of a response, tokens", "response_length/mean"),
)


def series(steps: Sequence[Mapping[str, Any]], metric: str) -> Points:
    """Points (step, value) of a metric.

    Args:
        steps: `{"step": n, "data": {metric: value}}`, ascending; a metric may be absent from any step.
        metric: its name in verl.
    """
    found = [(step["step"], step["data"].get(metric)) for step in steps]
    return [(step, float(value)) for step, value in found if isinstance(value, int | float)]


def curves(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Title and SVG of every panel that the steps have something for."""
    drawn = [(panel.title, series(steps, panel.metric)) for panel in PANELS]
    return [(title, _draw(title, points)) for title, points in drawn if points]


def plain_axes(axes: Axes, palette: Palette) -> None:
    """Whole steps below, a quiet grid, no frame."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.grid(axis="y", color=palette.line, linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


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


def name_lines(axes: Axes, names: Sequence[str]) -> None:
    """Write each line's name in its colour at the right edge, near the line's end, clear of the others."""
    ends = [float(np.asarray(line.get_ydata())[-1]) for line in axes.lines]
    low, high = axes.get_ylim()
    place: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    for line, name, y in zip(axes.lines, names, spread(ends, 0.075 * (high - low), high), strict=True):
        colour = line.get_color()
        axes.annotate(name, (1.0, y), (4, 0), **place, annotation_clip=False, color=colour, va="center", fontsize=9)


def write_png(figure: Figure, path: Path) -> None:
    """The figure as a picture on white; the old one is replaced when the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    figure.savefig(aside, format="png", dpi=170, facecolor="white", metadata={"Software": None})
    os.replace(aside, path)


def as_svg(figure: Figure) -> str:
    """The figure as an SVG element, `PAGE`'s colours replaced by the page's variables."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for colour, variable in _CSS.items():
        text = text.replace(colour, variable)
    return text


def _draw(title: str, points: Points) -> str:
    # The salt keeps the ids of several charts in one page apart, and equal from run to run.
    with mpl.rc_context({**PAGE.style(), "svg.hashsalt": title}):
        figure = Figure(figsize=(3.6, 2.3), layout="constrained")
        axes = figure.add_subplot()
        xs, ys = zip(*points, strict=True)
        marker = "o" if len(points) <= 30 else None
        axes.plot(xs, ys, color=PAGE.series[0], marker=marker, markersize=3.5, linewidth=1.8)
        axes.set_xlabel("step")
        plain_axes(axes, PAGE)
        axes.margins(y=0.12)
        return as_svg(figure)
