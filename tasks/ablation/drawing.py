"""The picture of an ablation: exact match over the RL steps, a panel an arm, the baseline behind each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasks.ablation.result import Result
from tasks.ablation.table import by_arm
from tasks.evaluation.charts import LIGHT, Points, plain_axes
from tasks.params.arms import BASELINE

COLUMNS = 4  # panels side by side
_BEHIND = "#8a9099"  # the baseline's grey


def curve(result: Result) -> Points:
    """Exact match on the validation questions by RL step."""
    return sorted((int(step), at.em) for step, at in result.validation.items())


def mean_curve(results: Sequence[Result]) -> Points:
    """The mean over seeds, at the steps that all of them have."""
    curves = [dict(curve(one)) for one in results]
    steps = sorted(set.intersection(*map(set, curves)))
    return [(step, float(np.mean([one[step] for one in curves]))) for step in steps]


def draw(results: Sequence[Result]) -> Figure:
    """A panel an arm: a thin line a seed, a thick one their mean, and the baseline's mean in grey.

    Raises:
        InputError: there is no baseline, or the results are of several profiles.
    """
    arms = by_arm(results)
    behind = mean_curve(arms[BASELINE])
    lines = -(-len(arms) // COLUMNS)
    figure = Figure(figsize=(9.4, 0.5 + 2.2 * lines), layout="constrained")
    grid = figure.subplots(lines, min(COLUMNS, len(arms)), sharex=True, sharey=True, squeeze=False)
    for axes, (name, of) in zip(grid.flat, arms.items(), strict=False):
        _panel(axes, name, of, behind)
    for axes in grid.flat[len(arms) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel("EM")
    for axes in grid.flat[max(0, len(arms) - grid.shape[1]) : len(arms)]:
        axes.set_xlabel("RL step")
        axes.tick_params(labelbottom=True)
    seeds = sorted({one.seed for one in results})
    said = f"thin: seeds {', '.join(map(str, seeds))}; thick: their mean" if len(seeds) > 1 else f"seed {seeds[0]}"
    figure.suptitle(f"Exact match on validation questions; {said}; dashed: the baseline", x=0.01, ha="left", fontsize=9)
    return figure


def _panel(axes: Axes, name: str, results: Sequence[Result], behind: Points) -> None:
    colour = LIGHT.ink if name == BASELINE else LIGHT.series[0]
    if name != BASELINE:
        axes.plot(*_xy(behind), color=_BEHIND, linewidth=1.6, linestyle=(0, (4, 2)))
    if len(results) > 1:
        for one in results:
            axes.plot(*_xy(curve(one)), color=colour, linewidth=0.9, alpha=0.4)
    mean = mean_curve(results)
    axes.plot(*_xy(mean), color=colour, linewidth=2.0)
    last = f"  {mean[-1][1]:.2f}" if mean else ""
    axes.set_title(f"{name}{last}", loc="left", fontsize=9.5)
    axes.set_ylim(-0.03, 1.03)
    plain_axes(axes, LIGHT)


def _xy(points: Points) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]
