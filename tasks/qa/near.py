"""Questions that occur twice: word for word, but for case and punctuation, or but for a word or so.

Decided, and why: whether two texts that differ in a word are one question, the texts can't say. "Who employs
Karo?" and "Who employs Mila?" are two questions; "Who wrote Emma?" and "Who penned Emma?" are one. So a pair is
*near* when both hold:

- their words, as `tasks/qa/comparing.py` gives them, are few insertions, deletions or replacements apart (Levenshtein
  distance): one, from 16 words on two, from 24 on three; none where both have fewer than three words;
- they share a normalised answer and, where both name gold passages, these are the same.

No pair that is near is missed by chance, as it would be with MinHash: candidates are found by segments that
must be equal.

Between a split that learns and one that measures, a doubt costs a training row. Within one split it would cost
many: 844 of 19,938 questions of MuSiQue differ from one with the same answer in a name ("the country where Tinaco
is located"). There a pair must name the same gold passages, or the words that differ must be frequent ones ("part"
and "area"), which names are not; and answers of yes and no say nothing without gold passages.

Between a split that learns and one that measures there is a fourth form, *similar*: exactly one word apart, but
another answer or other gold passages, and a pattern that few rows share: one that many share is a template.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tasks.agent.rewards import YES_NO, normalise
from tasks.qa.comparing import comparable, question_key
from tasks.qa.words import SHORTEST, WordIndex, differing

Form = Literal["same", "normalised", "near", "similar"]
FREQUENT = 0.001
LONGEST = 100  # words; in a longer question one word is no difference to speak of
TEMPLATE = 5  # so many rows that differ in one word only are a template
_YES_NO = frozenset(map(hash, YES_NO))


class Texts:
    """Questions with what they are compared by.

    Texts that are only compared for being equal are kept as their 64-bit hash: two millions of them differ and
    share one with a probability of 1e-7.

    Args:
        questions: the texts.
        answers: golden answers of each.
        golds: ids of the gold passages of each; empty where they are not known.
    """

    def __init__(
        self, questions: Iterable[str], answers: Iterable[Iterable[str]], golds: Iterable[Iterable[str]]
    ) -> None:
        self.normal: list[str] = []
        self._raw, self._keys, self._golds = array("q"), array("q"), array("q")
        self._rows, self._answers = array("q"), array("q")
        for row, (question, of_row, gold) in enumerate(zip(questions, answers, golds, strict=True)):
            self.normal.append(comparable(question))
            self._raw.append(hash(question))
            self._keys.append(int.from_bytes(question_key(question)[:8], signed=True))
            named = sorted({str(identity) for identity in gold})
            self._golds.append(hash(tuple(named)) if named else 0)
            for answer in {normalise(answer) for answer in of_row}:
                self._rows.append(row)
                self._answers.append(hash(answer))

    @property
    def raw(self) -> np.ndarray:
        """Hash of each text, shape (rows,)."""
        return np.frombuffer(self._raw, np.int64)

    @property
    def keys(self) -> np.ndarray:
        """First half of each question's key, shape (rows,): equal for texts that differ in their writing alone."""
        return np.frombuffer(self._keys, np.int64)

    @property
    def golds(self) -> np.ndarray:
        """Hash of each question's set of gold passages, shape (rows,); 0 where there is none."""
        return np.frombuffer(self._golds, np.int64)

    @property
    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and hash of every normalised answer, each of shape (answers,)."""
        return np.frombuffer(self._rows, np.int64), np.frombuffer(self._answers, np.int64)

    @cached_property
    def frequent(self) -> frozenset[str]:
        """Words of at least `FREQUENT` of the questions, and no fewer than five."""
        counts = Counter(word for text in self.normal for word in set(text.split()))
        least = max(5, FREQUENT * len(self.normal))
        return frozenset(word for word, count in counts.items() if count >= least)

    def words(self, row: int) -> list[str]:
        """Words of a question."""
        return self.normal[row].split()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows that ask the same; `other` is a row of the held-out questions, or an earlier row of the same ones."""

    row: int
    other: int
    form: Form


def equal_pairs(train: Texts, held: Texts) -> list[Pair]:
    """Rows of `train` that are held out word for word, each with the first such row, by ascending row."""
    raw, keys = _first(held.raw), _first(held.keys)
    found = []
    for row, (text, key) in enumerate(zip(train.raw.tolist(), train.keys.tolist(), strict=True)):
        if (other := raw.get(text)) is not None:
            found.append(Pair(row, other, "same"))
        elif (other := keys.get(key)) is not None:
            found.append(Pair(row, other, "normalised"))
    return found


def _first(codes: np.ndarray) -> dict[int, int]:
    """The first row of every code."""
    return dict(zip(*(part.tolist() for part in np.unique(codes, return_index=True)), strict=True))


def held_out_pairs(train: Texts, held: Texts) -> list[Pair]:
    """Rows of `train` that are also held out, by ascending row.

    For each the closest form, and of the held-out rows the first that it is found with.
    """
    found = {pair.row: pair for pair in equal_pairs(train, held)}
    groups = _by_answer(train, held.answers[1], 1)
    for answer, others in _by_answer(held, train.answers[1], 1).items():
        index = _Rows(held)
        for other in others.tolist():
            index.add(other)
        for row in groups[answer].tolist():
            known = found.get(row)
            if known is None or known.form == "near":
                nearest = index.first(train, row)
                if nearest is not None and (known is None or nearest < known.other):
                    found[row] = Pair(row, nearest, "near")
    for row, other in _similar(train, held):
        found.setdefault(row, Pair(row, other, "similar"))
    return [found[row] for row in sorted(found)]


def duplicates(texts: Texts) -> list[Pair]:
    """Rows that are near to an earlier row, with the first such row, by ascending row."""
    found: dict[int, int] = {}
    for answer, rows in _by_answer(texts, texts.answers[1], 2).items():
        index = _Rows(texts, within=True, needs_golds=answer in _YES_NO)
        for row in rows.tolist():
            other = index.first(texts, row)
            if other is not None:
                found[row] = min(other, found.get(row, other))
            index.add(row)
    return [Pair(row, found[row], "near") for row in sorted(found)]


def _by_answer(texts: Texts, wanted: np.ndarray, least: int) -> dict[int, np.ndarray]:
    """Rows by answer, of the answers that occur among `wanted` at least `least` times."""
    known, counts = np.unique(wanted, return_counts=True)
    rows, answers = texts.answers
    asked = np.isin(answers, known[counts >= least])
    rows, answers = rows[asked], answers[asked]
    order = np.argsort(answers, kind="stable")
    values, starts = np.unique(answers[order], return_index=True)
    return dict(zip(values.tolist(), np.split(rows[order], starts[1:]), strict=True)) if len(values) else {}


class _Rows:
    """Rows of one answer, in which a row finds those that it is near to."""

    def __init__(self, texts: Texts, *, within: bool = False, needs_golds: bool = False) -> None:
        self._texts, self._within, self._needs_golds = texts, within, needs_golds
        # By gold passages: rows with others are never compared. 0: they are not known.
        self._by_golds: dict[int, WordIndex] = defaultdict(WordIndex)
        self._all = WordIndex()

    def add(self, row: int) -> None:
        """Make a row findable."""
        words, golds = self._texts.words(row), int(self._texts.golds[row])
        self._by_golds[golds].add(row, words)
        self._all.add(row, words)

    def first(self, texts: Texts, row: int) -> int | None:
        """The first row that is near to a row of other texts, or of the same; None where there is none."""
        words, golds = texts.words(row), int(texts.golds[row])
        found = set()
        for index in self._comparable(golds):
            for other, two in index.similar(words):
                named = golds and self._texts.golds[other]
                if not self._within or named or differing(words, two) <= self._texts.frequent:
                    found.add(other)
        return min(found, default=None)

    def _comparable(self, golds: int) -> list[WordIndex]:
        if golds:
            wanted = (golds,) if self._needs_golds else (golds, 0)
            return [self._by_golds[one] for one in wanted if one in self._by_golds]
        return [] if self._needs_golds else [self._all]


def _patterns(text: str) -> Iterator[int]:
    """Hashes of a question with one word blanked out, for every word; none of a very short or very long question."""
    words = text.split()
    if SHORTEST < len(words) <= LONGEST:
        for place, word in enumerate(words):
            words[place] = "\0"
            yield hash(" ".join(words))
            words[place] = word


def _shortened(text: str) -> Iterator[int]:
    """Hashes of a question without one of its words, for every word; none of a very short or very long question."""
    words = text.split()
    if SHORTEST < len(words) <= LONGEST:
        for place in range(len(words)):
            yield hash(" ".join(words[:place] + words[place + 1 :]))


def _whole(text: str) -> Iterator[int]:
    yield hash(text)


def _similar(train: Texts, held: Texts) -> Iterator[tuple[int, int]]:
    """Pairs one word apart by a pattern that fewer than `TEMPLATE` rows share."""
    for mine, theirs in ((_patterns, _patterns), (_shortened, _whole), (_whole, _shortened)):
        of_held: dict[int, list[int]] = defaultdict(list)
        for row, text in enumerate(held.normal):
            for pattern in theirs(text):
                of_held[pattern].append(row)
        of_train: dict[int, list[int]] = defaultdict(list)
        for row, text in enumerate(train.normal):
            for pattern in mine(text):
                if pattern in of_held and len(of_train[pattern]) < TEMPLATE:
                    of_train[pattern].append(row)
        for pattern, rows in of_train.items():
            if len(rows) + len(of_held[pattern]) < TEMPLATE:
                for row in rows:
                    yield row, of_held[pattern][0]
