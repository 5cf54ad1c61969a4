"""What a person reads at the end of a validation: a line for all that does not hold, a line for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.errors import InputError

if TYPE_CHECKING:
    from tasks.qa.suite.running import Outcome


def lines(outcomes: Sequence[Outcome], rows: Mapping[str, int]) -> list[str]:
    """The report: each failure with its mend, errors first, then the summary of each table."""
    failed = sorted((one for one in outcomes if not one.passed), key=lambda one: one.severity)
    told = [f"{one.severity}: {one.table}, {one.name}: {one.observed}; {one.mend}" for one in failed]
    return told + [_summary(table, count, outcomes) for table, count in rows.items()]


def _summary(table: str, rows: int, outcomes: Sequence[Outcome]) -> str:
    of_table = [one for one in outcomes if one.table == table]
    parts = [f"{sum(one.passed for one in of_table)} of {len(of_table)} expectations hold"]
    for severity in ("error", "warning"):
        count = sum(not one.passed and one.severity == severity for one in of_table)
        parts += [f"{count} {severity}{'s' if count > 1 else ''}"] if count else []
    return f"{table} {rows:,} rows: {', '.join(parts)}"


def refusal(outcomes: Sequence[Outcome], docs: object) -> InputError | None:
    """The error that names the first failure and the names of the others; None where there are only warnings."""
    errors = [one for one in outcomes if not one.passed and one.severity == "error"]
    if not errors:
        return None
    first = errors[0]
    others = [f"{one.table}: {one.name}" for one in errors[1:]]
    also = f"; also failed: {', '.join(others)}" if others else ""
    return InputError(
        f"failed: {first.table}: {first.name}: {first.observed}{also}",
        where=first.where,
        mend=f"{first.mend}; report: {docs}",
    )
