"""Data Docs that can be read without a network.

Great Expectations' pages load their styles and scripts from content networks, and its index is a table made
by such a script. The pages get a local style sheet instead, lose the scripts, and the index is written anew.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from pathlib import Path

from tasks.qa.suite.catalogue import Severity

STYLES = Path(__file__).with_name("docs.css")
_FOREIGN = re.compile(
    r"<script\b.*?</script>"
    r"|<link\b[^>]*href=[\"']https?:[^>]*>"
    r"|<link\b[^>]*favicon[^>]*>"
    r"|<img\b[^>]*src=[\"']https?:[^>]*>"
    r"|<footer\b.*?</footer>"
    r"|background: url\('https?:[^;]*;",
    re.DOTALL | re.IGNORECASE,
)


def make_local(folder: Path, summary: Sequence[tuple[str, int, list[tuple[Severity, str]]]]) -> None:
    """Make a Data Docs site readable offline, in place.

    Args:
        folder: the site.
        summary: for each suite its name, the number of its expectations, and what failed: severity and words.
    """
    styles = folder / "static" / "styles" / STYLES.name
    styles.write_text(STYLES.read_text(encoding="utf-8"), encoding="utf-8")
    for page in folder.rglob("*.html"):
        link = f'<link rel="stylesheet" href="{os.path.relpath(styles, page.parent)}">'
        text = _FOREIGN.sub("", page.read_text(encoding="utf-8"))
        page.write_text(text.replace("</head>", f"{link}\n</head>", 1), encoding="utf-8")
    _write_index(folder, summary)


def _write_index(folder: Path, summary: Sequence[tuple[str, int, list[tuple[Severity, str]]]]) -> None:
    rows = []
    for name, count, failed in summary:
        (page,) = (folder / "validations" / name).rglob("*.html")
        refused = any(severity == "error" for severity, _ in failed)
        mark = '<b class="text-danger">FAILED</b>' if refused else '<b class="text-success">passed</b>'
        told = "<br>".join(html.escape(f"{severity}: {one}") for severity, one in failed)
        told = told or f"all {count} expectations hold"
        rows.append(
            f'<tr><td>{mark}</td><td><a href="{page.relative_to(folder)}">{name}</a></td><td>{told}</td>'
            f'<td><a href="expectations/{name}.html">suite</a></td></tr>'
        )
    table = "\n".join(rows)
    (folder / "index.html").write_text(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Validation of the data</title>'
        f'<link rel="stylesheet" href="static/styles/{STYLES.name}"></head>\n'
        '<body><div class="container-fluid"><h1>Validation of the data</h1><table class="table">'
        f"<tr><th>Status</th><th>Split</th><th>Found</th><th>Expected</th></tr>\n{table}\n"
        "</table></div></body></html>\n",
        encoding="utf-8",
    )
