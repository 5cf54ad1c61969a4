"""Which texts are few words apart: the algorithm PassJoin, over words instead of characters.

A text is cut into one segment more than words may differ, so at least one segment stands unchanged, and at nearly the
same place, in every text that is so near to it. A query looks up just those places of its own words.

Source: Li et al., "Pass-Join: A Partition-based Method for Similarity Joins" (2011), with its multi-match-aware
choice of places (section 4.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

WORDS_A_CHANGE = 8
MOST_CHANGES = 3
SHORTEST = 3


def changes_allowed(words: int) -> int:
    """Words that may be inserted, deleted or replaced between two texts, the longer one of `words` words."""
    return 0 if words < SHORTEST else min(MOST_CHANGES, max(1, words // WORDS_A_CHANGE))


def differing(one: Sequence[str], two: Sequence[str]) -> set[str]:
    """Words of two texts that an alignment with the fewest changes leaves unmatched."""
    found: set[str] = set()
    for edit in Levenshtein.opcodes(one, two):
        if edit.tag != "equal":
            found.update(one[edit.src_start : edit.src_end], two[edit.dest_start : edit.dest_end])
    return found


class WordIndex:
    """Texts by number, found again by those that are as near as `changes_allowed` says."""

    def __init__(self) -> None:
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._words: dict[int, list[str]] = {}
        self._lengths: set[int] = set()

    def add(self, number: int, words: list[str]) -> None:
        """Make a text findable."""
        self._words[number] = words
        self._lengths.add(len(words))
        for place, (start, stop) in enumerate(_segments(len(words))):
            self._numbers[hash((len(words), place, *words[start:stop]))].append(number)

    def similar(self, words: list[str]) -> Iterator[tuple[int, list[str]]]:
        """Numbers and words of all texts that are near to `words`."""
        tried = set()
        for key in self._keys(words):
            for number in self._numbers.get(key, ()):
                if number in tried:
                    continue
                tried.add(number)
                other = self._words[number]
                limit = changes_allowed(max(len(words), len(other)))
                if Levenshtein.distance(words, other, score_cutoff=limit) <= limit:
                    yield number, other

    def _keys(self, words: list[str]) -> Iterator[int]:
        """Keys under which every text stands that is near to `words`."""
        count = len(words)
        for length in range(count - MOST_CHANGES, count + MOST_CHANGES + 1):
            if length not in self._lengths or abs(count - length) > changes_allowed(max(count, length)):
                continue
            segments = _segments(length)
            shift = count - length
            for number, (start, stop) in enumerate(segments):
                after = len(segments) - 1 - number
                first = max(0, start - number, start + shift - after)
                last = min(count - (stop - start), start + number, start + shift + after)
                for place in range(first, last + 1):
                    yield hash((length, number, *words[place : place + stop - start]))


@cache
def _segments(words: int) -> list[tuple[int, int]]:
    """Starts and ends of the segments of a text of so many words, the longer ones last; none of an empty text."""
    # The other text may be longer, and then a change more may be allowed.
    parts = changes_allowed(words + changes_allowed(words) + 1) + 1
    bounds = [words * number // parts for number in range(parts + 1)]
    return list(pairwise(bounds)) if words else []
