"""What one change of a profile does: a line a profile over the RL steps, and a table of what came out.

    python -m tasks.contrasts [--out docs/images/contrasts.png]

It reads MLflow: of every profile the latest flow that ended well, and the stages' runs that this flow names.
`make contrasts` makes them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from tasks import params, tracking
from tasks.errors import InputError, exit_on_input_error
from tasks.evaluation.charts import LIGHT, Points, name_lines, plain_axes, write_png

PICTURE = Path("docs/images/contrasts.png")
REWARD = "critic/score/mean"
_VALIDATION = re.compile(r"validation\.(\d+)\.all\.em")
_MEND = "run `make contrasts`"
# The first line is the profile that the others differ from.
_COLOURS = ("#20252a", *LIGHT.series)


@dataclass(frozen=True)
class Contrast:
    """What came of a profile.

    Attributes:
        name: the profile's, without `contrast-`.
        reward: mean reward of the rollouts by RL step.
        em: exact match on the validation questions by RL step, step 0 before the first update.
        evaluated: figures of stage evaluate by their dotted names.
        decision: the gate's.
        commit: git's commit that the flow ran with.
    """

    name: str
    reward: Points
    em: Points
    evaluated: Mapping[str, float]
    decision: str
    commit: str


def read(profile: str) -> Contrast:
    """Look up a profile's latest results in MLflow.

    Raises:
        InputError: there is no flow of the profile that ended well, or it names a run without these figures.
    """
    flow = tracking.latest_flow(profile)
    if flow is None:
        raise InputError("no finished run", where=f"profile {profile}", mend=_MEND)
    rl, evaluate = (_stage(flow, profile, stage) for stage in ("rl", "evaluate"))
    found = {match[1]: value for key, value in rl.metrics.items() if (match := _VALIDATION.fullmatch(key))}
    em = sorted((int(step), value) for step, value in found.items())
    reward = tracking.history(rl.run_id, REWARD)
    for name, points in ((REWARD, reward), ("validation.STEP.all.em", em)):
        if not points:
            raise InputError(f"no metric {name}", where=f"profile {profile}, rl's run {rl.run_id}", mend=_MEND)
    name = profile.removeprefix("contrast-")
    tags = flow.tags
    return Contrast(name, reward, em, evaluate.metrics, tags.get("decision", "none"), tags["git.commit"])


def _stage(flow: tracking.Record, profile: str, stage: str) -> tracking.Record:
    run_id = flow.tags.get(f"run.{stage}")
    record = tracking.find_run(run_id) if run_id else None
    if record is None:
        # Made in another clone, whose outputs came by DVC's remote.
        raise InputError(f"no run of stage {stage} in this workspace's MLflow", where=f"profile {profile}", mend=_MEND)
    return record


def table(contrasts: Sequence[Contrast]) -> str:
    """The results as a table in Markdown; a figure that a run has not is `-`."""
    columns: dict[str, Callable[[Contrast], str]] = {
        "profile": lambda c: c.name,
        "EM base": lambda c: _shown(c, "models.base.em.mean"),
        "SFT": lambda c: _shown(c, "models.sft.em.mean"),
        "RL": lambda c: _shown(c, "models.rl.em.mean"),
        "RL - SFT": _gain,
        "two-hop EM, SFT > RL": lambda c: _change(c, "slices.{}.source-world-two-hop.em.mean"),
        "searches, SFT > RL": lambda c: _change(c, "models.{}.searches.mean"),
        "in form, RL": lambda c: _shown(c, "models.rl.format_rate.mean"),
        "reward, first > last step": lambda c: f"{c.reward[0][1]:.3f} > {c.reward[-1][1]:.3f}",
        "gate": lambda c: c.decision,
    }
    rows = [list(columns), ["---"] * len(columns)]
    rows += [[cell(contrast) for cell in columns.values()] for contrast in contrasts]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(contrast: Contrast, name: str, form: str = ".3f") -> str:
    value = contrast.evaluated.get(name)
    return "-" if value is None else format(value, form)


def _change(contrast: Contrast, name: str) -> str:
    return " > ".join(_shown(contrast, name.format(model)) for model in ("sft", "rl"))


def _gain(contrast: Contrast) -> str:
    mean, low, high = (_shown(contrast, f"comparisons.rl-sft.em.{key}", "+.3f") for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def commits(contrasts: Sequence[Contrast]) -> str:
    """One line that says so when the contrasts were run with different commits of the code; empty when not."""
    names: dict[str, list[str]] = {}
    for contrast in contrasts:
        names.setdefault(contrast.commit, []).append(contrast.name)
    if len(names) == 1:
        return ""
    told = "; ".join(f"{commit} {', '.join(of)}" for commit, of in names.items())
    return f"not all of one commit, so the code may differ as well: {told}"


def draw(contrasts: Sequence[Contrast]) -> Figure:
    """Two panels over the RL steps, reward and exact match, a line a profile named at its end."""
    figure = Figure(figsize=(9.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for axes, title, lines in (
        (left, "Reward of the rollouts, each profile's own", [c.reward for c in contrasts]),
        (right, "Exact match on validation questions", [c.em for c in contrasts]),
    ):
        for number, points in enumerate(lines):
            steps, values = zip(*points, strict=True)
            colour = _COLOURS[number % len(_COLOURS)]
            width = 1.7 if number else 2.6
            axes.plot(steps, values, color=colour, linewidth=width, marker="o", markersize=2.8, zorder=2 - number / 100)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("RL step")
        axes.set_ylim(-0.02, max(1.02, *(value for points in lines for _, value in points)))
        plain_axes(axes, LIGHT)
        name_lines(axes, [f"{c.name} {points[-1][1]:.2f}" for c, points in zip(contrasts, lines, strict=True)])
    return figure


def main(arguments: Sequence[str]) -> int:
    """Draw the contrasts and print their table."""
    parser = argparse.ArgumentParser(prog="python -m tasks.contrasts", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE, help=f"the PNG file (default {PICTURE})")
    out = parser.parse_args(arguments).out
    with exit_on_input_error("contrasts"):
        contrasts = [read(profile) for profile in params.contrasts()]
        with mpl.rc_context(LIGHT.style()):
            write_png(draw(contrasts), out)
    print(f"{table(contrasts)}\n")
    if note := commits(contrasts):
        print(note)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
