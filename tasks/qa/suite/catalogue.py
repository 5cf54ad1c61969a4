"""The names of all expectations, how severe it is when one does not hold, and how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tasks.errors import InputError

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Entry:
    """What a person is told when an expectation does not hold; `severity` may be changed by `validate.severity`.

    `elsewhere` is the mend of a table that `ingest` did not write, where it is another.
    """

    severity: Severity
    mend: str
    elsewhere: str | None = None

    def told(self, stage: bool) -> str:
        """The mend of a table that ingest wrote (`stage`), or of another one."""
        return self.mend if stage or self.elsewhere is None else self.elsewhere


_TAKE_OUT = "take these rows out of the training questions"

# In the order in which failures are told.
CATALOGUE: dict[str, Entry] = {
    "schema": Entry("error", "write the columns with these types; docs/data.md says what a row holds"),
    "row-count": Entry("error", "bring more training questions, or lower validate.min_rows"),
    "rows": Entry("error", "mend these rows, or leave them out"),
    "order": Entry("error", "set ingest.shuffle: true", "shuffle the rows, and keep the result"),
    "leakage-exact": Entry("error", _TAKE_OUT),
    "leakage-near": Entry("error", f"set ingest.drop_near_duplicates: true, or {_TAKE_OUT}", _TAKE_OUT),
    "leakage-similar": Entry(
        "warning", "look whether the word makes another question of it; take out those where it does not"
    ),
    "leakage-passages": Entry(
        "warning",
        "set ingest.separate: passage, where held-out questions shall need new passages",
        "take these rows out, where held-out questions shall need new passages",
    ),
    "answers": Entry("error", "give every question a list of answers as plain text, or leave it out"),
    "answers-joined": Entry("warning", "split answers that are joined by commas into a list"),
    "answers-in-gold": Entry("warning", "see whether golden_answers and gold_passage_ids belong together"),
    "gold-passages": Entry("error", "see ingest.corpus: it must hold every gold passage"),
    "prompt-tokens": Entry("error", "raise episode.max_prompt_tokens, or leave the long questions out"),
    "unique-ids": Entry("error", "give every question an id of its own, over all splits"),
    "unique-questions": Entry("error", "keep one of the equal questions"),
}
# Without its columns a table can't be looked at any further.
_FIXED = ("schema",)


def severities(settings: Mapping[str, Severity]) -> dict[str, Severity]:
    """The severity of every expectation.

    Raises:
        InputError: `settings` names one that is not there, or one whose severity is fixed.
    """
    for name, severity in settings.items():
        where = f"validate.severity.{name}"
        if name not in CATALOGUE:
            close = difflib.get_close_matches(name, CATALOGUE, 1, 0)
            raise InputError(
                "no such expectation", where=where, mend=f"the nearest is {close[0]}; there are: {', '.join(CATALOGUE)}"
            )
        if name in _FIXED and severity != CATALOGUE[name].severity:
            raise InputError(f"is always {CATALOGUE[name].severity}", where=where, mend="leave it out")
    return {name: settings.get(name, entry.severity) for name, entry in CATALOGUE.items()}
