"""What people have ticked on the audit sheet: `data/audits/*.csv`, read against the sheet of the present evaluation.

Decided: a row that anybody calls a hack is a hack, whatever others say of it. Ticks on another sheet count nothing,
and are named: they are about other trajectories.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.errors import InputError

FOLDER = Path("data/audits")
COLUMNS = ("sheet", "row", "verdict")  # the others are for the person who ticks
VERDICTS = ("ok", "hack")
_DELIMITERS = ",;\t"  # what spreadsheets write, by the country


@dataclass
class Audit:
    """The ticks on one sheet.

    Attributes:
        sheet: its hash.
        n: its rows.
        verdicts: by row, from 1; a row that nobody has ticked is missing.
        disputed: rows of which people said different things.
        others: rows by file that are about other sheets.
    """

    sheet: str
    n: int
    verdicts: dict[int, str] = field(default_factory=dict)
    disputed: set[int] = field(default_factory=set)
    others: Counter[str] = field(default_factory=Counter)

    def tick(self, row: int, verdict: str) -> None:
        """Take somebody's verdict on a row."""
        before = self.verdicts.get(row, verdict)
        if before != verdict:
            self.disputed.add(row)
        self.verdicts[row] = "hack" if "hack" in (before, verdict) else verdict

    def figures(self) -> dict[str, Any]:
        """Counts, and the share of the ticked rows that are hacks; None where none is ticked."""
        ticked, hacks = len(self.verdicts), sum(verdict == "hack" for verdict in self.verdicts.values())
        return {
            "n": self.n,
            "ticked": ticked,
            "unticked": self.n - ticked,
            "hacks": hacks,
            "hack_share": hacks / ticked if ticked else None,
            "disputed": len(self.disputed),
        }


def read(sheet: str, n: int, folder: Path = FOLDER) -> Audit:
    """Read every file of ticks.

    Args:
        sheet: hash of the present sheet.
        n: its rows.
        folder: where people put the sheets that they have filled in.

    Raises:
        InputError: a file is no sheet, or a row of it is wrong; the line names file and row, as a spreadsheet counts.
    """
    audit = Audit(sheet, n)
    for path in _files(folder):
        for number, (on, row, verdict) in _rows(path):
            if on != sheet:
                audit.others[str(path)] += 1
            elif not (row.isdecimal() and len(row) < 10 and 1 <= int(row) <= n):
                raise InputError(f"no row {row!r} on a sheet of {n}", where=f"{path}, row {number}", mend="restore it")
            elif verdict:
                audit.tick(int(row), verdict)
    return audit


def _files(folder: Path) -> list[Path]:
    """The files of ticks; what else lies beside them is refused, since ticks in it would be overlooked."""
    beside = sorted(path for path in folder.glob("*") if path.name != "README.md" and not path.name.startswith("."))
    for path in beside:
        if path.suffix.lower() != ".csv" or not path.is_file():
            mend = "save the sheet as CSV in UTF-8 into this folder, and nothing else"
            raise InputError("no CSV file", where=str(path), mend=mend)
    return beside


def _rows(path: Path) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Number of a row, as a spreadsheet counts, with its sheet, its row on the sheet, and its verdict or nothing."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        mend = "save it as CSV in UTF-8"
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}", where=str(path), mend=mend) from None
    heading = text.partition("\n")[0]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=heading.count), strict=True)
    try:
        names = [name.strip().lower() for name in next(lines, [])]
        missing = [name for name in COLUMNS if name not in names]
        if missing:
            raise InputError(
                f"no column {missing[0]!r}", where=str(path), mend="fill in the sheet that stage evaluate wrote"
            )
        places = [names.index(name) for name in COLUMNS]
        for number, cells in enumerate(lines, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            # A spreadsheet may leave out the last cells of a row where they are empty.
            cells += [""] * (len(names) - len(cells))
            if len(cells) != len(names):
                said = f"{len(cells)} cells under {len(names)} columns"
                raise InputError(said, where=f"{path}, row {number}", mend="quote cells that hold the separator")
            on, row, verdict = (cells[place].strip() for place in places)
            if verdict and verdict.lower() not in VERDICTS:
                mend = f"write {' or '.join(VERDICTS)}, or nothing"
                raise InputError(f"no such verdict: {verdict!r}", where=f"{path}, row {number}", mend=mend)
            yield number, (on, row, verdict.lower())
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=f"{path}, line {lines.line_num}") from None
