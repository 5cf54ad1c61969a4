"""Values of a row, checked: each function returns the value as it is used, or says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tasks.agent import rewards
from tasks.qa.reading import RowError, kind
from tasks.qa.reading.answers import MISSING, list_as_text

LONGEST_QUESTION = 65_536
MOST_HOPS = 1_000
_SHOWN = 60
# XML allows them nowhere; what a terminal or a database makes of them is anybody's guess.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def required(row: Mapping[str, Any], key: str) -> Any:
    """The value of a key that every row has."""
    try:
        return row[key]
    except KeyError:
        raise RowError("missing_key", f"key {key!r} is missing") from None


def absent(value: Any) -> bool:
    """Whether there is no value: null, or NaN."""
    return value is None or bool(value != value)


def plain(value: Any, key: str) -> str:
    """A text as it is, which may be empty."""
    if type(value) is not str:
        raise RowError("wrong_type", f"{key}: must be a text, got {kind(value)}{_quoted(value)}")
    if not value.isprintable():
        _characters(value, key)
    return value


def text(value: Any, key: str, empty: str = "empty_text") -> str:
    """A text without space at its ends; `empty` is the reason where there is none."""
    if type(value) is not str and absent(value):
        raise RowError(empty, f"{key}: is {kind(value)}")
    value = plain(value, key).strip()
    if not value:
        raise RowError(empty, f"{key}: is empty")
    return value


def _characters(value: str, key: str) -> None:
    found = _CONTROL.search(value)
    if found:
        message = f"{key}: the control character U+{ord(found[0]):04X} at character {found.start() + 1}; take it out"
        raise RowError("control_character", message)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        message = f"{key}: half of a surrogate pair at character {error.start + 1}, which is no character"
        raise RowError("not_utf8", message) from None


def _quoted(value: Any) -> str:
    return f'; write it as a text: "{value}"'[:_SHOWN] if type(value) in (int, float) else ""


def question(value: Any, key: str) -> str:
    """A question, which has a letter or a digit."""
    value = text(value, key, "empty_question")
    if not _LETTER_OR_DIGIT.search(value):
        raise RowError("empty_question", f"{key}: no letter or digit in {value[:_SHOWN]!r}")
    if len(value) > LONGEST_QUESTION:
        raise RowError("too_long", f"{key}: {len(value):,} characters, and a question has at most {LONGEST_QUESTION:,}")
    return value


def answers(value: Any, key: str, *, lone: bool = False) -> tuple[str, ...]:
    """Golden answers, one of which at least a prediction can match; `lone`: a text that is no list is one too."""
    return matchable(listed_answers(value, key, lone=lone), key)


def listed_answers(value: Any, key: str, *, lone: bool = False) -> tuple[str, ...]:
    """Golden answers, whether or not a prediction can match them."""
    if type(value) is str and lone:
        if value.strip() == "None":
            message = f"{key}: 'None' stands for a missing value; where it is the answer, write a list: [\"None\"]"
            raise RowError("no_answer", message)
        return (_answer(value, key),)
    if type(value) is not list:
        if absent(value):
            raise RowError("no_answer", f"{key}: is {kind(value)}")
        wanted = "a text or a list of texts" if lone else "a list of texts"
        raise RowError("wrong_type", f"{key}: must be {wanted}, got {kind(value)}")
    if not value:
        raise RowError("no_answer", f"{key}: a question without an answer")
    if len(value) == 1:
        return (_answer(value[0], key),)
    return tuple([_answer(one, f"{key}.{number}") for number, one in enumerate(value)])


def _answer(value: Any, key: str) -> str:
    value = text(value, key, "no_answer")
    if value in MISSING:
        raise RowError("no_answer", f"{key}: {value!r} stands for a missing value")
    if list_as_text(value):
        raise RowError("list_as_text", f"{key}: a list that was made a text, {value[:_SHOWN]!r}; write the list itself")
    return value


def matchable(found: tuple[str, ...], key: str) -> tuple[str, ...]:
    """Golden answers, refused where nothing is left of any once normalised: no prediction could be an exact match."""
    if rewards.matchable(found):
        return found
    shown = ", ".join(map(repr, found))[:_SHOWN]
    message = f"{key}: nothing is left of {shown} once case, punctuation and articles are set aside"
    raise RowError("unmatchable_answer", message)


def identity(value: Any, key: str) -> str:
    """An id; a whole number becomes a text."""
    return str(value) if type(value) is int else text(value, key)


def titles(value: Any, key: str) -> tuple[str, ...]:
    """A list of texts, which may be empty."""
    return tuple([text(one, f"{key}.{number}") for number, one in enumerate(items(value, key))])


def identities(value: Any, key: str) -> tuple[str, ...]:
    """A list of ids, which may be empty."""
    return tuple([identity(one, f"{key}.{number}") for number, one in enumerate(items(value, key))])


def label(value: Any, key: str) -> str | None:
    """What kind of thing a row says it is, as a text or a whole number; None where there is no value."""
    if absent(value) or value == "":
        return None
    return str(value) if type(value) is int else text(value, key)


def items(value: Any, key: str) -> list[Any]:
    """A list."""
    if type(value) is not list:
        raise RowError("wrong_type", f"{key}: must be a list, got {kind(value)}")
    return value


def entries(value: Any, key: str) -> dict[str, Any]:
    """An object."""
    if type(value) is not dict:
        raise RowError("wrong_type", f"{key}: must be an object, got {kind(value)}")
    return value


def whole(value: Any, key: str) -> int:
    """A whole number; also as a float, which pandas makes of a column with a missing value."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise RowError("wrong_type", f"{key}: must be a whole number, got {kind(value)}")
    return value


def hops(value: Any, key: str) -> int:
    """Passages that have to be read one after another."""
    number = whole(value, key)
    if not 1 <= number <= MOST_HOPS:
        raise RowError("wrong_hops", f"{key}: must be 1 to {MOST_HOPS:,}, got {str(value)[:_SHOWN]}")
    return number
