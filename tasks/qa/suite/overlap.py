"""What a table has in common with the tables that measure what is learnt from it, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tasks.qa import near
from tasks.qa.suite.survey import Survey

_SHOWN = 100  # characters of a question that a message shows
LEAKS = {"same": "leak_exact", "normalised": "leak_exact", "near": "leak_near", "similar": "leak_similar"}


def leaks(table: Survey, held_out: Sequence[Survey], *, alike: bool = True) -> dict[str, list[str | None]]:
    """Questions that are held out as well, in one of the forms of `tasks.qa.near`.

    Args:
        table: what is learnt from.
        held_out: what measures.
        alike: whether those are looked for that are held out but for a word or so.

    Returns:
        columns `leak_exact`, `leak_near` and `leak_similar`: for each row both questions and the row of the
        held-out one; None where there is none.
    """
    find = near.held_out_pairs if alike else near.equal_pairs
    columns: dict[str, list[str | None]] = {name: [None] * len(table.frame) for name in LEAKS.values()}
    for other in held_out:
        for pair in find(table.texts, other.texts):
            mine, held = table.questions[pair.row].as_py(), other.questions[pair.other].as_py()
            column = columns[LEAKS[pair.form]]
            # Rows without a question are told as such, and are no leaks of each other.
            if mine.strip() and column[pair.row] is None:
                column[pair.row] = (
                    f"{_shown(mine)} is {pair.form} to row {pair.other} of {other.name}, {_shown(held)}"
                    if pair.form in ("near", "similar")
                    else f"{_shown(mine)} is row {pair.other} of {other.name}, {_shown(held)}"
                )
    return columns


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def repeated_questions(table: Survey) -> list[str | None]:
    """For each row the earlier row that asks the same, however it is written; None where none does."""
    asked = ~pc.equal(pc.utf8_trim_whitespace(table.questions), "").to_numpy()
    return _earlier(
        pd.Series(table.texts.keys)[asked],
        len(table.frame),
        lambda row, first: f"{_shown(table.questions[row].as_py())} as in row {first}",
    )


def repeated_ids(table: Survey, held_out: Sequence[Survey], *, by_source: bool = False) -> list[str | None]:
    """For each row where its id came before: in an earlier row, or in a table that measures; None where nowhere.

    `by_source`: ids start anew in every `data_source`, as in Search-R1's merged sets.
    """
    identities, keys = table.frame["id"], _ids(table, by_source)
    found = _earlier(keys, len(keys), lambda row, first: f"{identities[row]!r} as in row {first}")
    for other in held_out:
        rows = {key: row for row, key in _ids(other, by_source).dropna().items()}
        for row in np.flatnonzero(keys.isin(list(rows))):
            found[row] = found[row] or f"{identities[row]!r} as in row {rows[keys[row]]} of {other.name}"
    return found


def _ids(table: Survey, by_source: bool) -> pd.Series:
    identities = table.frame["id"]
    return table.frame["data_source"].fillna("") + "\0" + identities if by_source else identities


def _earlier(keys: pd.Series, rows: int, told: Callable[[int, int], str]) -> list[str | None]:
    """For each of the rows whose key an earlier row has, what `told` says of it and of the first such row."""
    found: list[str | None] = [None] * rows
    known = keys.dropna()
    first: dict[object, int] = {}
    for row, key in known[known.duplicated(keep=False)].items():
        earlier = first.setdefault(key, row)
        if earlier != row:
            found[row] = told(row, earlier)
    return found


def shared_passages(table: Survey, held_out: Sequence[Survey]) -> list[str]:
    """For each row a gold passage that a held-out row has too, and which row that is; "" where there is none."""
    found = [""] * len(table.frame)
    mine, parents = _golds(table)
    for other in held_out:
        theirs, of_theirs = _golds(other)
        shared = pc.is_in(mine, value_set=theirs.unique())
        first: dict[str, int] = {}
        for gold, row in zip(theirs.to_pylist(), of_theirs.to_pylist(), strict=True):
            first.setdefault(gold, row)
        for gold, row in zip(mine.filter(shared).to_pylist(), parents.filter(shared).to_pylist(), strict=True):
            found[row] = found[row] or f"gold passage {gold!r} is also that of row {first[gold]} of {other.name}"
    return found


def _golds(table: Survey) -> tuple[pa.Array, pa.Array]:
    """All gold passages of a table, and the row of each."""
    golds = table.golds.combine_chunks()
    return golds.flatten(), pc.list_parent_indices(golds)
