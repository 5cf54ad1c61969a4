"""Nested values that a file holds as texts."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from typing import Any

from tasks.qa.reading import RowError, fields, json_text

_SIDE_BY_SIDE = re.compile(r"""['"]\s+['"]""")


def decoded(value: Any, key: str) -> Any:
    """A nested value, also where the file holds it as a text: JSON, or a literal of Python.

    Raises:
        RowError: a text that is neither, or texts side by side as numpy prints them, which Python would join.
    """
    if type(value) is not str:
        return value
    try:
        return json_text.decoded(value)
    except RowError as error:
        if error.reason != json_text.NOT_JSON:  # what isn't JSON may still be a literal
            raise
    try:
        found = ast.literal_eval(value)
        repr(found)  # refuses a number in hexadecimal that has too many digits to be written
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise RowError("wrong_type", f"{key}: a text that is neither JSON nor a literal of Python") from None
    if _SIDE_BY_SIDE.search(value) and _joined(value):
        raise RowError("wrong_type", f"{key}: texts without commas between them, as numpy prints them; write JSON")
    return found


def _joined(literal: str) -> bool:
    tokens = tokenize.generate_tokens(io.StringIO(literal).readline)
    kinds = [token.type for token in tokens if token.type not in (tokenize.NL, tokenize.NEWLINE)]
    return (tokenize.STRING, tokenize.STRING) in itertools.pairwise(kinds)


def objects(row: dict[str, Any], key: str, within: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The objects of a list with the place of each, also where the list is a text; `within` is the row's own place."""
    place = f"{within}.{key}" if within else key
    listed = fields.items(decoded(fields.required(row, key), place), place)
    return [(f"{place}.{number}", fields.entries(one, f"{place}.{number}")) for number, one in enumerate(listed)]
