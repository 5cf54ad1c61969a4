"""Reading of foreign files, robustly: a file that is damaged as a whole is refused, a wrong row is named and passed on.

Every function that reads yields rows: where the row stands, and either its keys and values or what is wrong with it.
Lines of text are numbered from 1, as editors do; rows of what has no lines from 0, as pandas does.
"""

from __future__ import annotations

from typing import Any

_SHOWN = 60


class RowError(Exception):
    """A row can't be used.

    Args:
        reason: the kind of fault, as it is counted: a few words in snake_case.
        message: the key and what is wrong with it.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


Row = tuple[str, dict[str, Any] | RowError]


def as_row(origin: str, content: Any) -> Row:
    """A row of what was decoded, which must be an object with keys."""
    if isinstance(content, dict):
        return origin, content
    return origin, RowError("not_an_object", f"must be an object with keys, got {kind(content)}")


def kind(value: Any) -> str:
    """What a value is called in a message: JSON's words, not Python's; a number is named."""
    if value is None:
        return "null"
    if isinstance(value, float) and value != value:  # the definition of NaN
        return "NaN"
    if type(value) in (int, float):
        return f"the number {value}"[:_SHOWN]
    names = {bool: "true or false", str: "a text", bytes: "bytes", list: "a list", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")
