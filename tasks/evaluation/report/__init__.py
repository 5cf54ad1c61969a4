"""What people look at after an evaluation: the report, its viewer of trajectories, the audit sheet, dvc's plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.evaluation import climb
from tasks.evaluation.audit import sheet
from tasks.evaluation.report.audit_page import write_audit
from tasks.evaluation.report.page import write_report
from tasks.evaluation.report.plots import write_plots
from tasks.params.judging import Report


def publish(
    out: Path,
    *,
    figures: Mapping[str, Any],
    frame: pd.DataFrame,
    steps: Sequence[Mapping[str, Any]],
    validation: climb.Validation,
    settings: Report,
    seed: int,
    profile: str,
) -> dict[str, Any]:
    """Write `report.html`, `audit.csv` and `audit.html`, and `plots/`.

    Args:
        out: folder that they are written to.
        figures: the evaluation's, as `write_report` takes them; the sheet is about the `candidate`'s trajectories.
        frame: its greedy trajectories, one row each.
        steps: RL's steps, `{"step": n, "data": {metric: value}}`.
        validation: RL's validations, as `climb.read` returns them.
        settings: how much is shown; no audit where it asks for no trajectories.
        seed: of what is drawn.
        profile: name of the profile.

    Returns:
        the figures of the audit sheet, `{"audit": {"sheet", "n", "flagged", "flags"}}`; nothing where there is none
    """
    found: dict[str, Any] = {}
    if settings.audit:
        drawn = sheet.draw(frame, model=figures["candidate"], count=settings.audit, seed=seed)
        drawn.write(out / "audit.csv")
        write_audit(out / "audit.html", drawn, profile=profile)
        found = {"audit": drawn.figures()}
    write_plots(out / "plots", figures, validation)
    write_report(
        out / "report.html",
        figures={**figures, **found},
        frame=frame,
        steps=steps,
        validation=validation,
        settings=settings,
        seed=seed,
        profile=profile,
    )
    return found
