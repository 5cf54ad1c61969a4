"""What no person wrote as an answer: lists and missing values that a program turned into text."""

from __future__ import annotations

import re

# What JSON, numpy and pandas write where there is no value. Python's `None` is also a word that answers a question.
MISSING = frozenset({"nan", "NaN", "NaT", "<NA>", "null", "NULL"})
_QUOTE = r"""['"]"""
_WORDS = "|".join([*sorted(MISSING), "None", "[Tt]rue", "[Ff]alse"])
_BARE = rf"(?:[-+]?\d[\d.e+-]*+|{_WORDS})"
_LAST = rf"""(?:['"\d]|{_WORDS})"""
# Possessive, so that a long answer takes no time that grows with the square of its length.
_LIST = re.compile(
    rf"\[\s*+(?:{_BARE}(?:[\s,]++{_BARE})*+)?+[\s,]*+\]"
    rf"|\[[\s\[({{]*+(?:{_BARE}[\s,]++)*+{_QUOTE}.*{_LAST}[\s,\])}}]*\]"
    rf"|\(\s*+{_QUOTE}.*{_QUOTE}[\s,]*\)"
    rf"|\{{\s*+{_QUOTE}.*\}}"
    r"|[A-Za-z_.]++\([\[({].*\)",
    re.DOTALL,
)


def list_as_text(answer: str) -> bool:
    """Whether an answer, without space at its ends, is a list, tuple, set, object or array as Python or JSON writes it.

    A text in square brackets ("[REC]", "[O.S. 6 January] 1835") is none.
    """
    return answer[-1:] in "])}" and _LIST.fullmatch(answer) is not None
