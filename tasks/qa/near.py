"""Questions that occur twice: word for word, but for case and punctuation, or but for a word or so.

Decided, and why: whether two texts that differ in a word are one question, the texts can't say. "Who employs
Karo?" and "Who employs Mila?" are two questions; "Who wrote Emma?" and "Who penned Emma?" are one. So a pair is
*near* when both hold:

- the normalised word sequences are few insertions, deletions or replacements of words apart (Levenshtein distance):
  one, from 16 words on two, from 24 on three; none where both have fewer than three words;
- they share a normalised answer and, where both name gold passages, these are the same.

No pair that is near is missed by chance, as it would be with MinHash: candidates are found by segments that
must be equal.

Between a split that learns and one that measures, a doubt costs a training row. Within one split it would cost
many: 844 of 19,938 questions of MuSiQue differ from one with the same answer in a name ("the country where Tinaco
is located"). There a pair must name the same gold passages, or the words that differ must be frequent ones ("part"
and "area"), which names are not; and answers of yes and no say nothing without gold passages.

Between a split that learns and one that measures there is a fourth form, *similar*: exactly one word replaced,
another answer, and a pattern that few rows share, since a pattern that many share is a template.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tasks.agent.rewards import normalise
from tasks.qa.words import SHORTEST, WordIndex, differing

Form = Literal["same", "normalised", "near", "similar"]
FREQUENT = 0.001
LONGEST = 100  # words; in a longer question one word is no difference to speak of
TEMPLATE = 5  # so many rows that differ in one word only are a template
_YES_NO = np.array([hash("yes"), hash("no")])


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
        self._raw, self._golds = array("q"), array("q")
        self._rows, self._answers = array("q"), array("q")
        for row, (question, of_row, gold) in enumerate(zip(questions, answers, golds, strict=True)):
            self.normal.append(normalise(question))
            self._raw.append(hash(question))
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
        """Words of a normalised question."""
        return self.normal[row].split()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows that ask the same; `other` is a row of the held-out questions, or an earlier row of the same ones."""

    row: int
    other: int
    form: Form


def held_out_pairs(train: Texts, held: Texts) -> list[Pair]:
    """Rows of `train` that are also held out: for each the held-out row that is most like it, by ascending row."""
    found: dict[int, Pair] = {}
    raw = {text: row for row, text in reversed(list(enumerate(held.raw.tolist())))}
    normal = {text: row for row, text in reversed(list(enumerate(held.normal))) if text}
    for row, (text, normalised) in enumerate(zip(train.raw.tolist(), train.normal, strict=True)):
        if (other := raw.get(text)) is not None:
            found[row] = Pair(row, other, "same")
        elif (other := normal.get(normalised)) is not None:
            found[row] = Pair(row, other, "normalised")
    groups = _by_answer(train, held.answers[1], 1)
    for answer, others in _by_answer(held, train.answers[1], 1).items():
        index = _Rows(held)
        for other in others.tolist():
            index.add(other)
        for row in groups[answer].tolist():
            if row not in found and (near := index.find(train, row)) is not None:
                found[row] = Pair(row, near, "near")
    for row, other in _similar(train, held):
        found.setdefault(row, Pair(row, other, "similar"))
    return [found[row] for row in sorted(found)]


def duplicates(texts: Texts) -> list[Pair]:
    """Rows that are near to an earlier row, by ascending row."""
    found: dict[int, int] = {}
    for answer, rows in _by_answer(texts, texts.answers[1], 2).items():
        index = _Rows(texts, within=True, needs_golds=answer in _YES_NO)
        for row in rows.tolist():
            if row in found:
                continue
            other = index.find(texts, row)
            if other is None:
                index.add(row)
            else:
                found[row] = other
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
    """Rows of one answer, in which a row finds another that it is near to."""

    def __init__(self, texts: Texts, *, within: bool = False, needs_golds: bool = False) -> None:
        self._texts, self._within, self._needs_golds = texts, within, needs_golds
        self._index = WordIndex()

    def add(self, row: int) -> None:
        """Make a row findable."""
        self._index.add(row, self._texts.words(row))

    def find(self, texts: Texts, row: int) -> int | None:
        """A row that is near to a row of other texts, or of the same; None where there is none."""
        words, gold = texts.words(row), texts.golds[row]
        if self._needs_golds and not gold:
            return None
        for other, two in self._index.similar(words):
            other_gold = self._texts.golds[other]
            if gold != other_gold and ((gold and other_gold) or self._needs_golds):
                continue
            if not self._within or (gold and other_gold) or differing(words, two) <= self._texts.frequent:
                return other
        return None


def _patterns(text: str) -> Iterator[int]:
    """Hashes of a question with one word blanked out, for every word; none of a very short or very long question."""
    words = text.split()
    if SHORTEST < len(words) <= LONGEST:
        for place, word in enumerate(words):
            words[place] = "\0"
            yield hash(" ".join(words))
            words[place] = word


def _similar(train: Texts, held: Texts) -> Iterator[tuple[int, int]]:
    """Pairs one replaced word apart whose pattern fewer than `TEMPLATE` rows share."""
    of_held: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(held.normal):
        for pattern in _patterns(text):
            of_held[pattern].append(row)
    of_train: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(train.normal):
        for pattern in _patterns(text):
            if pattern in of_held and len(of_train[pattern]) < TEMPLATE:
                of_train[pattern].append(row)
    for pattern, rows in of_train.items():
        if len(rows) + len(of_held[pattern]) < TEMPLATE:
            for row in rows:
                yield row, of_held[pattern][0]
