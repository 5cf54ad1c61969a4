"""What a person reads at the end of a validation: a line for all that does not hold, a line for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import InputError

if TYPE_CHECKING:
    from tasks.qa.suite.running import Outcome

_PAIRS = ("leakage-exact", "leakage-near", "leakage-similar")  # nothing without the row of the other table
DOCS, FINDINGS = "docs", "findings.jsonl"


def lines(outcomes: Sequence[Outcome], rows: Mapping[str, int]) -> list[str]:
    """The report: each failure in short with its mend, errors first, then the summary of each table.

    The mend of the first error is left to `refusal`, which is read right after it.
    """
    failed = sorted((one for one in outcomes if not one.passed), key=lambda one: one.severity)
    refused = _errors(outcomes)[:1]
    told = []
    for one in failed:
        found = one.observed if one.name in _PAIRS and one not in refused else one.brief
        mend = "" if one in refused else f"; {one.mend}"
        told.append(f"{one.severity}: {one.table}, {one.name}: {found}{mend}")
    return told + [_summary(table, count, outcomes) for table, count in rows.items()]


def _errors(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in outcomes if not one.passed and one.severity == "error"]


def _summary(table: str, rows: int, outcomes: Sequence[Outcome]) -> str:
    of_table = [one for one in outcomes if one.table == table]
    parts = [f"{sum(one.passed for one in of_table)} of {len(of_table)} expectations hold"]
    for severity in ("error", "warning"):
        count = sum(not one.passed and one.severity == severity for one in of_table)
        parts += [f"{count} {severity}{'s' if count > 1 else ''}"] if count else []
    return f"{table} {rows:,} rows: {', '.join(parts)}"


def refusal(outcomes: Sequence[Outcome], folder: Path, *, rows: bool) -> InputError | None:
    """The error that names the first failure and the names of the others; None where there are only warnings.

    Args:
        outcomes: of all expectations.
        folder: holds `DOCS` and `FINDINGS`.
        rows: whether there are rows in the findings.
    """
    errors = _errors(outcomes)
    if not errors:
        return None
    first = errors[0]
    others = [f"{one.table}: {one.name}" for one in errors[1:]]
    also = f"; also failed: {', '.join(others)}" if others else ""
    every = f"; every row: {folder / FINDINGS}" if rows else ""
    return InputError(
        f"failed: {first.table}: {first.name}: {first.observed}{also}",
        where=first.where,
        mend=f"{first.mend}{every}; report: {folder / DOCS / 'index.html'}",
    )
