"""The page: one HTML file that opens without a network."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from tasks.diagnosis.finding import Finding, Plot
from tasks.diagnosis.run_data import RunData
from tasks.diagnosis.terminal import headline
from tasks.files import write_text_aside

TEMPLATE = "page.html.j2"
LONGEST = 1200  # characters of an example that are shown


def write(data: RunData, findings: Sequence[Finding], out: Path) -> None:
    """Write the page of a run's findings."""
    write_text_aside(out, render(data, findings))


def render(data: RunData, findings: Sequence[Finding]) -> str:
    """The page as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("tasks.diagnosis", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawings = {one.cause: Markup(draw(one.plot)) for one in findings if one.plot is not None}  # noqa: S704  our own SVG
    return environment.get_template(TEMPLATE).render(
        name=data.name,
        state=data.state,
        profile=data.param("profile", "unknown"),
        headline=headline(findings),
        findings=findings,
        drawings=drawings,
        shorten=_shorten,
        labels={"against": "against the run", "for": "in order", "missing": "not examined"},
    )


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} more characters)"


def draw(plot: Plot) -> str:
    """A small chart as SVG, in colours that suit a light and a dark page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    colours = ("#2f8f75", "#c9772b", "#5a8bc8", "#b06aa2", "#96a23c", "#c9523d")
    grey = "#8a939a"
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": plot.title,
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": grey,
    }
    with mpl.rc_context({**style, "axes.edgecolor": grey, "xtick.color": grey, "ytick.color": grey}):
        figure = Figure(figsize=(4.6, 1.9), layout="constrained")
        axes = figure.subplots()
        for number, (name, points) in enumerate(plot.lines.items()):
            steps, values = zip(*points, strict=True)
            colour = colours[number % len(colours)]
            axes.plot(steps, values, color=colour, marker="o", markersize=2.5, linewidth=1.5, label=name)
        axes.set_title(plot.title, loc="left", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
        axes.grid(axis="y", color=grey, alpha=0.25, linewidth=0.7)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0)
        if plot.share:
            axes.set_ylim(-0.03, 1.03)
        axes.legend(frameon=False, fontsize=8, labelcolor="linecolor", handlelength=0.8)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
