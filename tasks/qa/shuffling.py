"""Whether the rows of a table stand in an order that a fair shuffle could have given.

Three tests, each for several labellings of the rows (source, source and hops, gold passage ...):

- *run*: a label's longest run of neighbouring rows;
- *window*: a label's count in windows of many sizes, from 64 rows to half of the table;
- *neighbours*: how many neighbouring rows have the same label, which sees many short runs of many labels.

Each gives a bound on the probability that a fair shuffle (all orders equally likely) shows something as unlikely
anywhere in the table. The bounds are exact or conservative, never approximations. `examine` gives every test of
every labelling an equal part of the false-alarm probability, so by the union bound a fairly shuffled table is
refused with at most that probability, whatever its size. A table that is mixed more evenly than by chance passes:
only too much of a label in one place, or too little, counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

Test = Literal["run", "window", "neighbours"]
TESTS: tuple[Test, ...] = get_args(Test)
SMALLEST_WINDOW = 64
WINDOW_LABELS = 64  # windows are counted for the most frequent labels; of rarer ones a window holds too few to tell


@dataclass(frozen=True)
class Finding:
    """The most unlikely thing that one test saw in one labelling.

    Attributes:
        test: which test.
        labelling: what the rows were labelled by.
        label: the label concerned; empty for `neighbours`, which looks at all of them.
        first_row, rows: where in the table, and over how many of its rows.
        count: rows of the label there; for `neighbours`, neighbouring rows with the same label.
        chance: longest run that chance allows; for the others the count that a fair shuffle gives on average.
        probability: bound on the probability that a fair shuffle shows something as unlikely in this test.
        allowed: probability at or below which the table is refused.
    """

    test: Test
    labelling: str
    label: str
    first_row: int
    rows: int
    count: int
    chance: float
    probability: float
    allowed: float

    @property
    def refused(self) -> bool:
        """Whether a fair shuffle is ruled out."""
        return self.probability <= self.allowed

    def __str__(self) -> str:
        last = self.first_row + self.rows - 1
        if self.test == "run":
            return (
                f"longest run: {self.count} rows of {self.labelling} {self.label}, rows {self.first_row} to {last}; "
                f"chance allows {self.chance:.0f}"
            )
        if self.test == "window":
            place = f"rows {self.first_row} to {last} hold {self.count} of {self.labelling} {self.label}"
        else:
            place = f"{self.count} pairs of neighbouring rows have the same {self.labelling}"
        bound = f"p <= {self.probability:.1g}" if self.probability > 0 else "p < 1e-300"
        return f"{place}; chance gives {self.chance:.1f} ({bound})"


def examine(labellings: Mapping[str, Sequence[Any] | np.ndarray], false_alarm: float) -> list[Finding]:
    """What the tests see, most unlikely first.

    Args:
        labellings: for each labelling a label for every row; rows whose label is None or NaN are left out of it,
            since the other rows of a shuffled table are shuffled too.
        false_alarm: probability with which a fairly shuffled table may be refused.

    Returns:
        one finding for each test and each labelling with two labels or more; under one label any order will do.
    """
    allowed = false_alarm / (len(TESTS) * max(1, len(labellings)))
    findings = []
    for labelling, labels in labellings.items():
        codes, names = pd.factorize(np.asarray(labels, dtype=object))
        places = np.flatnonzero(codes >= 0)
        codes = codes[places]
        if len(names) < 2:
            continue
        counts = np.bincount(codes)
        for test, worst in _TESTS.items():
            code, first, length, count, chance, probability = worst(codes, counts, allowed)
            if length == 0:
                continue
            label = "" if code is None else str(names[code])
            row, last = int(places[first]), int(places[first + length - 1])
            findings.append(Finding(test, labelling, label, row, last - row + 1, count, chance, probability, allowed))
    return sorted(findings, key=lambda finding: finding.probability)


# Code of the label, first place, length, count, what chance gives, probability.
_Worst = tuple[int | None, int, int, int, float, float]


def longest_allowed_run(rows: int, of_label: int, probability: float) -> int:
    """Longest run of a label that a random order shows with more than a given probability.

    In a random order of n rows, m of them of the label, a run of at least r starts at the first row with
    probability q(r) = m/n * (m-1)/(n-1) * ... (r factors), and at each of the n-r later places where it fits
    with probability q(r) * (n-m)/(n-r), since the row before must be of another label. By the union bound

        P(a run of at least r) <= q(r) * (1 + (n-r) * (n-m)/(n-r)) = q(r) * (n-m+1),

    which for many rows is about n (1-p) p^r with p = m/n. The smallest r for which this is at most
    `probability`, which is above 0, is refused; one less is allowed. Where all rows are of the label, every run is.
    """
    bound = float(rows - of_label + 1)
    for length in range(1, of_label + 1):
        bound *= (of_label - length + 1) / (rows - length + 1)
        if bound <= probability:
            return length - 1
    return of_label


def _run(codes: np.ndarray, counts: np.ndarray, allowed: float) -> _Worst:
    """The longest run of each label against `longest_allowed_run`'s bound, times the number of labels."""
    from scipy.special import gammaln

    rows = len(codes)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1))
    lengths = np.diff(np.append(starts, rows))
    longest = np.zeros(len(counts), np.int64)
    np.maximum.at(longest, codes[starts], lengths)
    log_bound = (
        np.log(rows - counts + 1)
        + (gammaln(counts + 1) - gammaln(counts - longest + 1))
        - (gammaln(rows + 1) - gammaln(rows - longest + 1))
    )
    code = int(np.lexsort((-longest, log_bound))[0])
    first = int(starts[(codes[starts] == code) & (lengths == longest[code])][0])
    length = int(longest[code])
    chance = longest_allowed_run(rows, int(counts[code]), allowed / len(counts))
    return code, first, length, length, chance, float(min(1.0, np.exp(log_bound[code]) * len(counts)))


def window_sizes(rows: int) -> list[int]:
    """64, 256, 1,024 ... rows below a quarter of the table, a quarter and a half of it."""
    sizes = {rows // 4, rows // 2}
    size = SMALLEST_WINDOW
    while size < rows // 4:
        sizes.add(size)
        size *= 4
    return sorted(size for size in sizes if size > 1)


def _window(codes: np.ndarray, counts: np.ndarray, allowed: float) -> _Worst:
    """Counts in windows against the hypergeometric distribution.

    Windows of one size are laid side by side, and once more half a window later; the last ends with the table.
    A label's count in a window of w rows of a fairly shuffled table is hypergeometric (n rows, m of the label, w
    drawn). Both tails are taken, and every tail of every window, size and label counts in the union bound.
    """
    from scipy.stats import hypergeom

    rows = len(codes)
    sizes = window_sizes(rows)
    if not sizes:
        return None, 0, 0, 0, 0.0, 1.0
    starts = [np.unique(np.append(np.arange(0, rows - size + 1, max(1, size // 2)), rows - size)) for size in sizes]
    labels = np.argsort(-counts, kind="stable")[:WINDOW_LABELS]
    tests = 2 * len(labels) * sum(map(len, starts))
    seen = []  # label, size, start and count of the emptiest and of the fullest window
    for label in labels.tolist():
        before = np.concatenate(([0], np.cumsum(codes == label)))
        for size, at in zip(sizes, starts, strict=True):
            inside = before[at + size] - before[at]
            seen += [(label, size, at[place], inside[place]) for place in (inside.argmin(), inside.argmax())]
    of, size, first, count = np.array(seen).T
    fewest = np.arange(len(seen)) % 2 == 0
    tails = np.where(
        fewest, hypergeom.cdf(count, rows, counts[of], size), hypergeom.sf(count - 1, rows, counts[of], size)
    )
    worst = int(np.lexsort((-size, tails))[0])
    label, width, inside = int(of[worst]), int(size[worst]), int(count[worst])
    expected = float(counts[label] * width / rows)
    return label, int(first[worst]), width, inside, expected, float(min(1.0, tails[worst] * tests))


def _neighbours(codes: np.ndarray, counts: np.ndarray, allowed: float) -> _Worst:
    """Pairs of neighbouring rows with the same label.

    Labels with m_1, m_2 ... of the n rows give sum m_i (m_i - 1) / n such pairs on average. Exchanging two rows
    changes their number by at most 4, so by McDiarmid's inequality for random permutations

        P(at least t more than on average) <= exp(-2 t^2 / (4^2 (n-1))).

    Source: McDiarmid, On the method of bounded differences, 1989.
    """
    rows = len(codes)
    same = int((np.diff(codes) == 0).sum())
    expected = float((counts * (counts - 1.0)).sum() / rows)
    more = max(0.0, same - expected)
    return None, 0, rows, same, expected, float(np.exp(-(more**2) / (8 * (rows - 1))))


_TESTS: dict[Test, Callable[[np.ndarray, np.ndarray, float], _Worst]] = {
    "run": _run,
    "window": _window,
    "neighbours": _neighbours,
}
