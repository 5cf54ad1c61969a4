"""GAIA's quasi-exact match: the golden answer says whether a number, a list or a string is compared.

Source: the leaderboard's `question_scorer` (Mialon et al. 2023, "GAIA: a benchmark for General AI Assistants",
https://huggingface.co/spaces/gaia-benchmark/leaderboard/blob/main/scorer.py). Three answers are right there that are
wrong here: one that is no number where the golden answer is infinite, an empty one where no letter or digit is left of
the golden answer, and no answer where that is "None". They would teach to answer nothing.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_UNITS = str.maketrans("", "", "$%,")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_BETWEEN = re.compile("[,;]")


def quasi_exact_match(answer: str | None, golden: Sequence[str]) -> float:
    """1.0 when the answer is any of the golden answers, else 0.0; None is no answer.

    A golden answer that is a number (`17`, not `17%`) is compared as one, of the answer without `$`, `%` and commas.
    One with a comma or a semicolon is a list (so is `$1,234`): as many elements in this order, each compared as a
    number, or as a string with its punctuation. Any other is a string without punctuation. White space and case never
    count.
    """
    return float(answer is not None and any(_matches(answer, one) for one in golden))


def _matches(answer: str, golden: str) -> bool:
    if _number(golden) is None and _BETWEEN.search(golden):
        said, wanted = _BETWEEN.split(answer), _BETWEEN.split(golden)
        return len(said) == len(wanted) and all(
            _same_number(one, other) if _number(other) is not None else _plain(one) == _plain(other)
            for one, other in zip(said, wanted, strict=True)
        )
    if _number(golden) is not None:
        return _same_number(answer, golden)
    bare = _plain(answer).translate(_PUNCTUATION)
    return bool(bare) and bare == _plain(golden).translate(_PUNCTUATION)


def _same_number(answer: str, golden: str) -> bool:
    said = _number(answer.translate(_UNITS))
    return said is not None and said == _number(golden)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _plain(text: str) -> str:
    return "".join(text.split()).lower()
