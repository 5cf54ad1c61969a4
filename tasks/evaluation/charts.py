"""Curves over RL steps as inline SVG whose colours are the page's own, so that they follow light and dark."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Matplotlib knows no CSS variables: these stand for them while drawing and are replaced in the SVG.
_INK, _LINE = "#010203", "#040506"
_SERIES = ("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06")
_CSS = {
    _INK: "var(--muted)",
    _LINE: "var(--line)",
    **{colour: f"var(--series-{n})" for n, colour in enumerate(_SERIES)},
}
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}

Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Panel:
    """A chart of the steps: its title and the metrics it takes, by name or by prefix."""

    title: str
    metrics: tuple[str, ...]


PANELS = (
    Panel("Reward of the rollouts", ("critic/score/mean",)),
    Panel("Validation", ("val-core/",)),
    Panel("Entropy of the policy", ("actor/entropy",)),
    Panel("Length of a response, tokens", ("response_length/mean",)),
)


def series(steps: Sequence[Mapping[str, Any]], panel: Panel) -> dict[str, Points]:
    """Points (step, value) of every metric that a panel takes, by the metric's short name.

    Args:
        steps: `{"step": n, "data": {metric: value}}`, ascending; a metric may be absent from any step.
        panel: what to take; a name ending in `/` takes every metric below it.
    """
    found: dict[str, Points] = {}
    for step in steps:
        for name, value in step["data"].items():
            prefix = next((m for m in panel.metrics if name == m or (m.endswith("/") and name.startswith(m))), None)
            if prefix is not None and isinstance(value, int | float):
                # verl's core validation metric of a source: the panel's title says what it is.
                short = name.removeprefix(prefix).removesuffix("/reward/mean@1") or name
                found.setdefault(short, []).append((step["step"], float(value)))
    return found


def curves(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Title and SVG of every panel that the steps have something for."""
    drawn = [(panel.title, series(steps, panel)) for panel in PANELS]
    return [(title, _draw(title, lines)) for title, lines in drawn if lines]


def _draw(title: str, lines: Mapping[str, Points]) -> str:
    # The salt keeps the ids of several charts in one page apart, and equal from run to run.
    with mpl.rc_context({**_STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=(4.6, 2.5), layout="constrained")
        axes = figure.add_subplot()
        for number, (name, points) in enumerate(sorted(lines.items())):
            xs, ys = zip(*points, strict=True)
            marker = "o" if len(points) <= 30 else None
            colour = _SERIES[number % len(_SERIES)]
            axes.plot(xs, ys, color=colour, label=name, marker=marker, markersize=3.5, linewidth=1.8)
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.grid(axis="y", color=_LINE, linewidth=0.7)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0)
        axes.margins(y=0.12)
        if len(lines) > 1:
            figure.legend(loc="outside upper left", frameon=False, fontsize=8, ncols=2)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for colour, variable in _CSS.items():
        text = text.replace(colour, variable)
    return text
