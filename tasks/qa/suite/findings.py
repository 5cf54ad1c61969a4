"""Every row by which an expectation is not met, as JSON lines: what a report of counts and first rows can't list."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation

from tasks.qa.suite.expectations import ExpectShareBySource

if TYPE_CHECKING:
    from tasks.qa.suite.running import Outcome

# What is wrong with a row by which a source's share is missed; of `leakage-passages` the column says it.
_OF_SHARES = {
    "answers-joined": "the only answer reads as several",
    "answers-in-gold": "no golden answer occurs in a gold passage",
}


def write(
    path: Path,
    frames: Mapping[str, pd.DataFrame],
    suites: Mapping[str, Sequence[Expectation]],
    outcomes: Sequence[Outcome],
) -> None:
    """Write `{table, expectation, row, id, what}` for every row by which an expectation is not met.

    `what` names the other row where there is one. Expectations of a whole table (its columns, its order, its number
    of rows) have no such rows. The file is there, and empty, where there is nothing to tell.

    Args:
        path: the file.
        frames: what the suites have looked at.
        suites: the expectations of each table, with their names.
        outcomes: of all of them.
    """
    failed = {(one.table, one.name) for one in outcomes if not one.passed}
    with path.open("w", encoding="utf-8") as file:
        for table, suite in suites.items():
            for expectation in suite:
                name = (expectation.meta or {})["name"]
                if (table, name) not in failed:
                    continue
                frame = frames[table]
                for row, what in _told(expectation, name, frame).items():
                    identity = frame.at[row, "id"]
                    found = {
                        "table": table,
                        "expectation": name,
                        "row": row,
                        "id": None if pd.isna(identity) else identity,
                        "what": what,
                    }
                    file.write(json.dumps(found, ensure_ascii=False) + "\n")


def _told(expectation: Expectation, name: str, frame: pd.DataFrame) -> pd.Series:
    """What is wrong, by row."""
    if isinstance(expectation, gxe.ExpectColumnValuesToBeNull):
        return frame[expectation.column].dropna().map(html.unescape)
    if isinstance(expectation, gxe.ExpectColumnValuesToBeBetween):
        values = frame[expectation.column].dropna()
        odd = values[~values.between(expectation.min_value, expectation.max_value)]
        return odd.map(lambda value: f"{value}, not {expectation.min_value:g} to {expectation.max_value:g}")
    if isinstance(expectation, ExpectShareBySource):
        return expectation.odd(frame).map(lambda value: _OF_SHARES.get(name, value))
    return pd.Series(dtype=object)
