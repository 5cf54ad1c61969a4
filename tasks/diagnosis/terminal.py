"""The findings on a terminal: what applies with its evidence and mend, the others in a line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from tasks.diagnosis.finding import Finding
from tasks.diagnosis.run_data import RunData


def headline(findings: Sequence[Finding]) -> str:
    """The causes that apply in one sentence, those to be mended first before their consequences."""
    first = [one.cause for one in findings if one.verdict == "applies" and not one.follows]
    then = [one.cause for one in findings if one.verdict == "applies" and one.follows]
    missing = sum(one.verdict == "not examined" for one in findings)
    examined = len(findings) - missing
    lacking = f"; {missing} could not be examined" if missing else ""
    if not first:
        return f"none of the {examined} causes that were examined applies{lacking}"
    also = f"; probably in consequence: {', '.join(then)}" if then else ""
    return f"{', '.join(first)}{also}{lacking}"


def show(data: RunData, findings: Sequence[Finding]) -> None:
    """Print the summary."""
    # Into a pipe or a file a line is never broken.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 400, soft_wrap=True)
    console.print(f"{escape(data.name)}: {escape(data.state)}")
    for one in findings:
        after = f" (probably in consequence of {', '.join(one.follows)})" if one.follows else ""
        style = {"applies": "bold red", "fine": "green", "not examined": "yellow"}[one.verdict]
        console.print(f"[{style}]{one.verdict:12}[/] {one.cause}: {escape(one.title)}{after}")
        wanted = {"applies": "against", "not examined": "missing"}.get(one.verdict)
        for evidence in one.evidence:
            if evidence.weight == wanted:
                console.print(f"             {escape(evidence.text)}")
        for mend in one.mends:
            console.print(f"             [bold]mend:[/] {escape(mend)}")
    console.print(
        f"[bold]applies:[/] {headline(findings)}"
        if any(f.verdict == "applies" for f in findings)
        else headline(findings)
    )
