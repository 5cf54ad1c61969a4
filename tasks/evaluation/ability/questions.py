"""Multiple-choice questions out of a file of JSON lines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.qa.reading import RowError, fields, json_text, kind
from tasks.qa.reading.opening import no_rows


@dataclass(frozen=True)
class Choices:
    """A question with its choices.

    Attributes:
        context: what a choice continues.
        choices: at least two, all different.
        answer: place of the right one, from 0.
        origin: file and line, or whatever else tells a person where the question came from.
    """

    context: str
    choices: tuple[str, ...]
    answer: int
    origin: str

    @property
    def continuations(self) -> list[str]:
        """The choices as they continue the context: after a space, where there is none yet."""
        return _continued(self.context, self.choices)


def read(path: Path, count: int, seed: int) -> list[Choices]:
    """Questions of a file: `{"question" or "context", "choices": [...], "answer": place from 0, or the text}` a line.

    A question is asked as lm-evaluation-harness asks ARC's, `Question: ...` and `Answer:` on a line of its own; a
    context is continued as it is.

    Args:
        path: of the file; a name that ends with .gz is unpacked.
        count: most questions; of more, as many are drawn and keep their order, since files are sorted by subject.
        seed: of the draw.

    Raises:
        InputError: the file can't be read or is empty, or a line is no such question.
    """
    found = []
    for origin, row in json_text.json_lines(path):
        try:
            if isinstance(row, RowError):
                raise row
            found.append(_question(row, origin))
        except RowError as error:
            raise InputError(error.message, where=origin, mend="mend the line, or take it out") from None
    if not found:
        raise no_rows(path)
    if len(found) <= count:
        return found
    drawn = sorted(random.Random(f"{seed}:ability").sample(range(len(found)), count))
    return [found[place] for place in drawn]


def _question(row: dict[str, Any], origin: str) -> Choices:
    if ("question" in row) == ("context" in row):
        raise RowError("missing_key", "must have one of the keys 'question' and 'context'")
    if "question" in row:
        context = f"Question: {fields.question(row['question'], 'question')}\nAnswer:"
    else:
        context = _kept(row["context"], "context")
    listed = fields.items(fields.required(row, "choices"), "choices")
    choices = tuple(_kept(one, f"choices.{number}") for number, one in enumerate(listed))
    # As they continue the context: "a" and " a" would be scored alike.
    if len(choices) < 2 or len(set(_continued(context, choices))) < len(choices):
        raise RowError("wrong_choices", f"choices: must be two or more, all different, got {len(choices)}")
    return Choices(context, choices, _answer(fields.required(row, "answer"), choices), origin)


def _continued(context: str, choices: Sequence[str]) -> list[str]:
    return [one if context[-1].isspace() or one[0].isspace() else f" {one}" for one in choices]


def _kept(value: Any, key: str) -> str:
    """A text that is more than white space, with the white space at its ends."""
    fields.text(value, key)
    return str(value)


def _answer(value: Any, choices: Sequence[str]) -> int:
    if type(value) is int and 0 <= value < len(choices):
        return value
    if isinstance(value, str) and value in choices:
        return choices.index(value)
    told = repr(value)[:60] if isinstance(value, str) else kind(value)
    message = f"answer: must be the place of a choice, 0 to {len(choices) - 1}, or its text, got {told}"
    raise RowError("wrong_answer", message)
