"""The report of an evaluation: one HTML file that needs nothing but a browser.

Style, charts, trajectories and the viewer's script are inside it; nothing is fetched, and the page's own policy forbids
any script but that one. All text of models and corpora is escaped, or becomes text nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from tasks.evaluation import charts, climb
from tasks.evaluation.endings import COUNTED
from tasks.evaluation.report import excerpts, trajectories
from tasks.evaluation.report.rendering import render
from tasks.params.judging import Report

# Figure, heading, whether it is a share (shown in per cent); a figure that no model has is left out.
_QUALITY = (
    ("success", "Success", True),
    ("em", "Exact match", True),
    ("f1", "F1", True),
    ("answer_rate", "Answered", True),
    ("format_rate", "In form", True),
    ("hit_rate", "Gold found", True),
    ("citation_precision", "Citation precision", True),
    ("citation_recall", "Citation recall", True),
)
_EFFORT = (
    ("searches", "Searches", False),
    ("turns", "Turns", False),
    ("generated_tokens", "Tokens written", False),
    ("response_tokens", "Tokens in all", False),
    ("tool_latency", "Seconds a call", False),
)
_EXAMPLE = 6_000  # characters of a segment before and after
_NAMES = {"base": "Base", "sft": "SFT", "rl": "RL", "rft": "RFT", "champion": "Champion"}
_SLICES = {"hops-": "hops: ", "source-": "source: ", "type-": "type: "}


def write_report(
    path: Path,
    *,
    figures: Mapping[str, Any],
    frame: pd.DataFrame,
    steps: Sequence[Mapping[str, Any]],
    validation: climb.Validation,
    settings: Report,
    seed: int,
    profile: str,
) -> None:
    """Write the report.

    Args:
        path: the HTML file.
        figures: the evaluation's; all but those of `metrics.summarise` may be absent.
        frame: the trajectories they were made of.
        steps: RL's steps, `{"step": n, "data": {metric: value}}`; any metric may be absent.
        validation: RL's validations, as `climb.read` returns them.
        settings: how much is shown.
        seed: of the choice of trajectories.
        profile: name of the profile.
    """
    models = list(figures["models"])
    names = {name: name_of(name) for name in models}
    # Where success is exact match, one column says both.
    same = all(model["success"] == model["em"] for model in figures["models"].values())
    had = {metric for model in figures["models"].values() for metric in model} - ({"success"} if same else set())
    shown = trajectories.choose(frame, settings.trajectories, seed)
    html = render(
        "report.html.j2",
        scripts=("drawing.js", "viewer.js"),
        packed=trajectories.pack(shown, names),
        shown=len(shown),
        of=len(frame),
        profile=profile,
        questions=figures["models"][models[0]]["n"],
        models=[{"id": name, "name": names[name], **figures["models"][name]} for name in models],
        quality=[column for column in _QUALITY if column[0] in had],
        effort=[column for column in _EFFORT if column[0] in had],
        main="em" if same else "success",
        comparisons=[_comparison(pair, values) for pair, values in figures["comparisons"].items()],
        slices=_slices(figures["slices"], models),
        endings=_endings(figures["endings"], models),
        figures=figures,
        name_of=name_of,
        climb=Markup(climb.svg(validation)),  # noqa: S704  matplotlib escapes
        validated={kind: at["n"] for kinds in validation.values() for kind, at in kinds.items()},
        curves=[(title, Markup(svg)) for title, svg in charts.curves(steps)],  # noqa: S704  matplotlib escapes
        last_step=steps[-1]["step"] if steps else 0,
        **_examples(frame, models, settings.examples),
    )
    path.write_text(html, encoding="utf-8")


def name_of(model: str) -> str:
    """How the page calls a model."""
    return _NAMES.get(model, model)


def _comparison(pair: str, values: Mapping[str, Any]) -> dict[str, Any]:
    later, earlier = pair.split("-", 1)
    return {"later": name_of(later), "earlier": name_of(earlier), "values": values}


def _slices(slices: Mapping[str, Any], models: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"name": _slice_name(label), "models": [slices[model][label] for model in models]}
        for label in slices[models[0]]
    ]


def _slice_name(label: str) -> str:
    prefix = next(prefix for prefix in _SLICES if label.startswith(prefix))
    return f"{_SLICES[prefix]}{label.removeprefix(prefix)}"


def _endings(counted: Mapping[str, Any], models: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of counts, a count a model: every ending, then whatever else occurred."""

    def row(name: str, bad: bool, values: list[int]) -> dict[str, Any]:
        return {"name": name, "bad": bad, "values": values}

    def kinds(key: str) -> list[str]:
        return sorted({kind for model in models for kind in counted[model][key]})

    rows = [
        row(f"ended by {reason}", False, [counted[model]["stopped_by"].get(reason, 0) for model in models])
        for reason in kinds("stopped_by")
    ]
    rows.append(row("tool calls", False, [counted[model]["calls"] for model in models]))
    rows += [
        row(f"failed calls: {kind}", True, [counted[model]["failed_calls"].get(kind, 0) for model in models])
        for kind in kinds("failed_calls")
    ]
    for key, name in COUNTED.items():
        values = [counted[model][key] for model in models]
        if any(values):
            rows.append(row(name, key != "forced_answer", values))
    return rows


def _examples(frame: pd.DataFrame, models: Sequence[str], count: int) -> dict[str, Any]:
    """Trajectories of the last two models side by side, or of the only one."""
    shown = list(models[-2:])
    by_model = {name: frame[frame["model"] == name].set_index("question_id") for name in shown}
    earlier, later = by_model[shown[0]], by_model[shown[-1]]
    found = excerpts.groups(earlier, later, (name_of(shown[0]), name_of(shown[-1])))
    return {
        "groups": [(group.name, len(group.ids)) for group in found] if len(shown) > 1 else [],
        "examples": [
            {
                "group": group if len(shown) > 1 else "",
                "row": earlier.loc[key],
                "runs": [_run(name, by_model[name].loc[key]) for name in shown],
            }
            for group, key in excerpts.choose(found, count)
        ],
    }


def _run(model: str, row: Any) -> dict[str, Any]:
    return {
        "name": name_of(model),
        "row": row,
        "calls": excerpts.calls(row),
        "cited": list(row["cited"]),
        "precision": None if pd.isna(row["citation_precision"]) else row["citation_precision"],
        "facts": len(json.loads(row["facts"])),
        # pandas turns the None of an episode without an answer into NaN.
        "answer": None if pd.isna(row["answer"]) else row["answer"],
        "segments": [{**one, "pieces": excerpts.shorten(one["pieces"], _EXAMPLE)} for one in excerpts.segments(row)],
    }
