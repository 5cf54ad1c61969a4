"""Curves over RL steps as inline SVG whose colours are the page's own, so that they follow light and dark."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
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


@dataclass(frozen=True)
class Panel:
    """A chart of one of verl's metrics over the steps."""

    title: str
    metric: str


PANELS = (
    Panel("Reward of the rollouts", "critic/score/mean"),
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
