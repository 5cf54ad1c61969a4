"""The report of an evaluation: one HTML file that needs nothing but a browser.

Style, charts and text are inside it; nothing is fetched. All text of models and corpora is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.evaluation import charts, climb
from tasks.evaluation.endings import COUNTED
from tasks.evaluation.report import excerpts

TEMPLATE = "report.html.j2"
# Figure, heading, whether it is a share (shown in per cent).
_COLUMNS = (
    ("em", "Exact match", True),
    ("f1", "F1", True),
    ("format_rate", "In form", True),
    ("searches", "Searches", False),
    ("turns", "Turns", False),
)
_CITATIONS = (
    ("citation_precision", "Citation precision", True),
    ("citation_recall", "Citation recall", True),
)
_SUCCESS = ("success", "Success", True)
_NAMES = {"base": "Base", "sft": "SFT", "rl": "RL"}


def write_report(
    path: Path,
    *,
    figures: Mapping[str, Any],
    frame: pd.DataFrame,
    steps: Sequence[Mapping[str, Any]],
    validation: climb.Validation,
    examples: int,
    profile: str,
) -> None:
    """Write the report.

    Args:
        path: the HTML file.
        figures: what `metrics.summarise` returned.
        frame: the trajectories it was given.
        steps: RL's steps, `{"step": n, "data": {metric: value}}`; any metric may be absent.
        validation: RL's validations, as `climb.read` returns them.
        examples: how many questions are shown with their trajectories.
        profile: name of the profile.
    """
    models = list(figures["models"])
    # Where success is exact match, one column says both.
    same = all(model["success"] == model["em"] for model in figures["models"].values())
    first = figures["models"][models[0]]
    columns = [*(() if same else (_SUCCESS,)), *_COLUMNS, *(column for column in _CITATIONS if column[0] in first)]
    page = _environment().get_template(TEMPLATE)
    html = page.render(
        profile=profile,
        questions=first["n"],
        models=[{"id": name, "name": name_of(name), **figures["models"][name]} for name in models],
        columns=columns,
        main="em" if same else "success",
        comparisons=[_comparison(pair, values) for pair, values in figures["comparisons"].items()],
        slices=_slices(figures["slices"], models),
        endings=_endings(figures["endings"], models),
        climb=Markup(climb.svg(validation)),  # noqa: S704  matplotlib escapes
        validated={kind: at["n"] for kinds in validation.values() for kind, at in kinds.items()},
        curves=[(title, Markup(svg)) for title, svg in charts.curves(steps)],  # noqa: S704  matplotlib escapes
        last_step=steps[-1]["step"] if steps else 0,
        **_examples(frame, models, examples),
    )
    path.write_text(html, encoding="utf-8")


def name_of(model: str) -> str:
    """How the page calls a model."""
    return _NAMES.get(model, model)


def share(value: float) -> str:
    """A share in per cent with one decimal."""
    return f"{100 * value:.1f}"


def signed(value: float, percent: bool) -> str:
    """A difference with its sign, in percentage points or as it is."""
    return f"{100 * value:+.1f}" if percent else f"{value:+.2f}"


def p_value(p: float) -> str:
    """A p value, not below what anybody reads."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"share": share, "signed": signed, "p_value": p_value}
    return environment


def _comparison(pair: str, values: Mapping[str, Any]) -> dict[str, Any]:
    later, earlier = pair.split("-", 1)
    return {"later": name_of(later), "earlier": name_of(earlier), "values": values}


def _slices(slices: Mapping[str, Any], models: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": label.replace("hops-", "hops: ").replace("source-", "source: "),
            "models": [slices[model][label] for model in models],
        }
        for label in slices[models[0]]
    ]


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
        "segments": excerpts.segments(row),
    }
