"""The audit sheet as a page: a trajectory at a time, judged by mouse or keys, saved as the sheet's own CSV."""

from __future__ import annotations

from pathlib import Path

from tasks.evaluation.audit.flags import FLAGS
from tasks.evaluation.audit.sheet import COLUMNS, Sheet
from tasks.evaluation.report import trajectories
from tasks.evaluation.report.page import name_of
from tasks.evaluation.report.rendering import render


def write_audit(path: Path, sheet: Sheet, *, profile: str) -> None:
    """Write the page.

    Args:
        path: the HTML file.
        sheet: with one row at least.
        profile: name of the profile.
    """
    model = sheet.frame["model"].iloc[0]
    found = sheet.figures()
    html = render(
        "audit.html.j2",
        scripts=("drawing.js", "audit.js"),
        packed=trajectories.pack(
            sheet.frame, {model: name_of(model)}, sheet={"columns": list(COLUMNS), "rows": sheet.rows()}
        ),
        profile=profile,
        model=name_of(model),
        sheet=sheet.name,
        n=found["n"],
        flagged=found["flagged"],
        flags=found["flags"],
        meanings={name: flag.meaning for name, flag in FLAGS.items()},
    )
    path.write_text(html, encoding="utf-8")
