"""Golden answers that no policy could give, or that are not what they seem."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.agent.rewards import YES_NO, matchable, normalise
from tasks.qa.reading.answers import MISSING, list_as_text

# A missing value as Python writes it, and a true answer: SQuAD's to "How many treaties protected fundamental rights?".
NONE = "None"
_SEPARATORS = re.compile(r"\s*(?:(?<!\d)[,;|]|[,;|](?!\d))\s*")  # not the commas of 1,289,500
_ENUMERATED = re.compile(r"(?:and|or|etc)\b|&")
_PARTS, _WORDS = 3, 4


def answer_fault(answers: Sequence[str | None] | None) -> str | None:
    """What is wrong with a question's golden answers; None where nothing is.

    Answers are *unmatchable* when none of them keeps a word as SQuAD's evaluation normalises text ("the", "?"):
    then no answer of a policy can be an exact match.
    """
    if not answers:
        return "no golden answer"
    for answer in answers:
        if answer is None:
            return "null among the golden answers"
        if not answer.strip():
            return "an empty golden answer"
        if list_as_text(answer.strip()):
            return "a list written as text"
        if answer.strip() in MISSING:
            return "a missing value written as text"
    if not matchable([answer for answer in answers if answer]):
        return "unmatchable: no word is left when normalised"
    return None


def looks_joined(answers: Sequence[str | None] | None) -> bool:
    """Whether the only answer reads as several that were joined: three parts or more, each of four words at most.

    An enumeration in prose ("Sea, Air, and Land") is one answer. What is left is a suspicion and no proof: "Paris,
    Texas, United States" is one place.
    """
    if not answers or len(answers) != 1 or not answers[0]:
        return False
    parts = _SEPARATORS.split(answers[0].strip())
    if len(parts) < _PARTS or _ENUMERATED.match(parts[-1]):
        return False
    return all(1 <= len(part.split()) <= _WORDS for part in parts)


def is_computed(answers: Sequence[str]) -> bool:
    """Whether every answer is yes, no or a number: what a question may ask for without any passage saying so."""
    words = [normalise(answer) for answer in answers]
    return all(word in YES_NO or word.replace(" ", "").isdecimal() for word in words)
