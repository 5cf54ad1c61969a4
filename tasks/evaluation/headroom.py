"""The head-room of several searches: what the question alone finds, and what an oracle's searches find, side by side.

    python -m tasks.evaluation.headroom [--retriever NAME] [--out docs/images/headroom.png]

It shows what stage index has left in data/index/figures.json, by source and number of hops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from tasks.errors import InputError, exit_on_input_error
from tasks.evaluation.charts import LIGHT, Palette, plain_axes, write_png
from tasks.files import read_json

FIGURES = Path("data/index/figures.json")
PICTURE = Path("docs/images/headroom.png")
_K = "3"


@dataclass(frozen=True)
class Bar:
    """One kind of question: shares of questions with all gold passages found; `oracle` is None without titles."""

    name: str
    questions: int
    one: float
    oracle: float | None


def bars(figures: Mapping[str, Any], retriever: str) -> list[Bar]:
    """Sources by name, each one's hops ascending.

    Args:
        figures: stage index's.
        retriever: one that was measured.

    Raises:
        InputError: it was not.
    """
    found = figures.get("by_hops", {})
    if retriever not in found:
        known = ", ".join(found) or "none"
        raise InputError(f"retriever {retriever!r} is not among those measured: {known}", where=str(FIGURES))
    return [
        Bar(f"{source}, {hops} hop{'s' * (hops != '1')}", of["questions"], of["all_support"][_K], of["oracle"][_K])
        for source, by_hops in sorted(found[retriever].items())
        for hops, of in sorted(by_hops.items(), key=lambda pair: int(pair[0]))
    ]


def write(figures: Mapping[str, Any], retriever: str, path: Path) -> None:
    """Draw a retriever's figures into a PNG file."""
    with mpl.rc_context(LIGHT.style()):
        write_png(_draw(bars(figures, retriever), retriever, LIGHT), path)


def _draw(found: Sequence[Bar], retriever: str, palette: Palette) -> Figure:
    figure = Figure(figsize=(7.2, 1.3 + 0.42 * len(found)), layout="constrained")
    axes = figure.add_subplot()
    plain_axes(axes, palette)
    axes.grid(axis="x", color=palette.line, linewidth=0.7)
    axes.grid(visible=False, axis="y")
    one, oracle = palette.series[1], palette.series[0]
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 9}
    for y, bar in enumerate(found):
        if bar.oracle is not None:
            axes.plot([bar.one, bar.oracle], [y, y], color=palette.line, linewidth=5, solid_capstyle="round", zorder=1)
            axes.plot(bar.oracle, y, "o", color=oracle, markersize=7)
            axes.annotate(f"{bar.oracle:.2f}", (bar.oracle, y), (7, 0), **beside, color=oracle)
        axes.plot(bar.one, y, "o", color=one, markersize=7)
        axes.annotate(f"{bar.one:.2f}", (bar.one, y), (-7, 0), **beside, ha="right", color=one)
    axes.set_yticks(range(len(found)), [f"{bar.name} ({bar.questions:,})" for bar in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(-0.09, 1.09)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("share of the questions with all gold passages among the first 3 of a search")
    axes.set_title(f"{retriever}: one query", loc="left", fontsize=10, color=one)
    axes.set_title("and one more for each gold title (oracle)", loc="right", fontsize=10, color=oracle)
    return figure


def main(arguments: Sequence[str]) -> int:
    """Draw the head-room of the last index."""
    parser = argparse.ArgumentParser(prog="python -m tasks.evaluation.headroom", description=main.__doc__)
    parser.add_argument("--retriever", default="bm25", help="whose figures (default bm25)")
    parser.add_argument("--out", type=Path, default=PICTURE, help=f"the PNG file (default {PICTURE})")
    found = parser.parse_args(arguments)
    with exit_on_input_error("headroom"):
        write(read_json(FIGURES), found.retriever, found.out)
    print(found.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
