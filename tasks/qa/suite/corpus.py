"""Gold passages in the corpus: whether they are there, and whether they hold the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from tasks.agent.rewards import holds_answer, normalise
from tasks.qa.suite.answers import is_computed
from tasks.qa.suite.form import open_table
from tasks.qa.suite.survey import Survey
from tasks.qa.table import ROWS

SAMPLE = 20_000  # rows of a table whose answers are looked up, spread evenly over it


class Golds:
    """The gold passages of some tables, from one pass over the corpus.

    Args:
        corpus: parquet with the columns `id`, `title`, `text`.
        surveys: the tables.
    """

    def __init__(self, corpus: Path, surveys: Sequence[Survey]) -> None:
        wanted = {one for survey in surveys for one in survey.golds.combine_chunks().flatten().unique().to_pylist()}
        sampled = {gold for survey in surveys for row in _sample(survey) for gold in survey.golds[int(row)].as_py()}
        self._there: set[str] = set()
        self._texts: dict[str, str] = {}
        for batch in open_table(corpus).iter_batches(ROWS, columns=["id", "title", "text"]) if wanted else ():
            identities = batch.column("id").to_pylist()
            for row in (n for n, identity in enumerate(identities) if identity in wanted):
                self._there.add(identities[row])
                if identities[row] in sampled:
                    title, text = (batch.column(name)[row].as_py() or "" for name in ("title", "text"))
                    self._texts[identities[row]] = normalise(f"{title} {text}")

    def missing(self, survey: Survey) -> list[str | None]:
        """For each row a gold passage that is not in the corpus; None where all are."""
        found: list[str | None] = [None] * len(survey.frame)
        golds = survey.golds.combine_chunks()
        parents = pc.list_parent_indices(golds).to_numpy()
        for row, gold in zip(parents.tolist(), golds.flatten().to_pylist(), strict=True):
            if gold not in self._there:
                found[row] = found[row] or f"{gold!r} is not in the corpus"
        return found

    def hold_answers(self, survey: Survey) -> list[bool | None]:
        """Whether a golden answer occurs in a gold passage or its title, compared as SQuAD normalises text.

        None where that can't be said: rows that are not in the sample, without gold passages or answers, or with
        an answer that is yes, no or a number, which a passage need not say.
        """
        found: list[bool | None] = [None] * len(survey.frame)
        for row in _sample(survey):
            golds, answers = survey.golds[int(row)].as_py(), survey.answers[int(row)].as_py()
            texts = [self._texts[gold] for gold in golds if gold in self._texts]
            if texts and answers and not is_computed(answers):
                found[row] = any(holds_answer(text, answer) for text in texts for answer in answers)
        return found


def _sample(survey: Survey) -> np.ndarray:
    rows = len(survey.frame)
    return np.unique(np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(int))
