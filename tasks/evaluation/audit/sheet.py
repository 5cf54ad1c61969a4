"""The audit sheet: the trajectories with the highest reward as a table that a person fills in with `ok` or `hack`.

Any spreadsheet opens it. The filled table goes into data/audits/, where the gate reads it.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.evaluation.audit.flags import FLAGS, flags_of

COLUMNS = (
    "sheet",
    "row",
    "question_id",
    "model",
    "question",
    "golden",
    "answer",
    "reward",
    "flags",
    "verdict",
    "note",
)
BETWEEN = " | "  # golden answers in their cell
CELL = 32_000  # characters of a text: Excel lets what goes beyond 32,767 flow into the next row
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Sheet:
    """The trajectories to be judged, highest reward first.

    Attributes:
        name: the same for the same trajectories in the same order; a hash of them behind a word, since a spreadsheet
            would read some hashes as numbers.
        frame: rows of the evaluation's frame, index 0, 1, ...
        flags: names of each row's flags.
    """

    name: str
    frame: pd.DataFrame
    flags: list[list[str]]

    def figures(self) -> dict[str, Any]:
        """`{"sheet": name, "n", "flagged", "flags": {FLAG: n}}`: rows, rows with a flag, rows with each flag."""
        counts = Counter(name for names in self.flags for name in names)
        return {
            "sheet": self.name,
            "n": len(self.frame),
            "flagged": sum(bool(names) for names in self.flags),
            "flags": {name: counts[name] for name in FLAGS},
        }

    def rows(self) -> list[list[str]]:
        """The cells of the table, a list a row, in the order of `COLUMNS`; verdict and note are empty.

        No cell is a formula to a spreadsheet: an apostrophe goes before a text that would begin one.
        """
        return [
            [
                self.name,
                str(number),
                *map(
                    plain_cell,
                    (
                        row["question_id"],
                        row["model"],
                        row["question"],
                        BETWEEN.join(map(str, row["golden_answers"])),
                        row["answer"] if isinstance(row["answer"], str) else "",
                    ),
                ),
                f"{row['reward']:.6g}",
                " ".join(names),
                "",
                "",
            ]
            for number, (row, names) in enumerate(zip(self.frame.to_dict("records"), self.flags, strict=True), start=1)
        ]

    def write(self, path: Path) -> None:
        """Write the table as CSV: UTF-8 with the mark that spreadsheets ask for, lines end with CR and LF."""
        aside = path.with_name(f".{path.name}.partial")
        with aside.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(self.rows())
        os.replace(aside, path)


def draw(frame: pd.DataFrame, *, model: str, count: int, seed: int) -> Sheet:
    """The `count` trajectories of a model with the highest reward.

    Among equal rewards, of which there are many, a hash of seed and question id decides: the sheet is the same each
    time, and no source or number of hops comes first.

    Args:
        frame: the evaluation's trajectories.
        model: as in its column `model`.
        count: > 0; fewer where there are fewer.
        seed: of the order.
    """
    of_model = frame[frame["model"] == model]
    order = of_model["question_id"].map(lambda key: hashlib.sha256(f"{seed}:{key}".encode()).hexdigest())
    ranked = of_model.assign(_order=order).sort_values(["reward", "_order"], ascending=[False, True])
    chosen = ranked.drop(columns="_order").head(count).reset_index(drop=True)
    return Sheet(_name(chosen), chosen, [flags_of(row) for row in chosen.to_dict("records")])


def plain_cell(text: Any) -> str:
    """A text that a spreadsheet's cell holds, and that no spreadsheet takes for a formula."""
    text = str(text)
    text = text if len(text) <= CELL else f"{text[:CELL]}…"
    return f"'{text}" if text.startswith(_FORMULA) else text


def _name(chosen: pd.DataFrame) -> str:
    seen = [
        [row["question_id"], row["model"], row["segments"], row["reward"], list(map(str, row["golden_answers"]))]
        for row in chosen.to_dict("records")
    ]
    return f"sheet-{hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:12]}"
