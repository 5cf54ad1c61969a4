"""Demonstrations against the questions that measure: SFT must learn none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.agent.demonstrations.drawing import read_info
from tasks.qa import near

# The closest first. A question one word from a held-out one, with another answer (`similar`), is another question.
FORMS: tuple[near.Form, ...] = ("same", "normalised", "near")


@dataclass(frozen=True)
class Asked:
    """A question that is held out: in which form, and the file and row, from 0, of the held-out one."""

    form: near.Form
    where: str


class HeldOut:
    """The questions of the splits that measure.

    Args:
        splits: the questions of each file.
    """

    def __init__(self, splits: Mapping[Path, near.Texts]) -> None:
        self._splits = splits

    @classmethod
    def read(cls, files: Sequence[Path]) -> HeldOut:
        """Read files of rows, parquet."""
        return cls({path: _texts(path) for path in files})

    def asked(self, questions: near.Texts) -> dict[int, Asked]:
        """Which of some questions are held out, by their number, each in its closest form."""
        found: dict[int, Asked] = {}
        for path, held in self._splits.items():
            for pair in near.held_out_pairs(questions, held):
                if pair.form not in FORMS:
                    continue
                known = found.get(pair.row)
                if known is None or FORMS.index(pair.form) < FORMS.index(known.form):
                    found[pair.row] = Asked(pair.form, f"{path}, row {pair.other}")
        return found


def _texts(path: Path) -> near.Texts:
    names = ("question", "golden_answers", "gold_passage_ids")
    columns: list[list[Any]] = [[], [], []]
    for info in read_info(path, *names):
        for column, name in zip(columns, names, strict=True):
            column += info.field(name).to_pylist()
    return near.Texts(*columns)
