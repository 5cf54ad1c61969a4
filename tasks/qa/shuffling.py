"""How well the sources are mixed in a table of rows, and how long a single-source run chance allows.

Two measures that complete each other. A window's share says whether a long stretch of rows leans to a source;
it is an absolute difference, so a rare source can't fail it by chance, and can't fail it at all when its rows
all stand together. A run's length says just that: its bound follows each source's own share, and is short for
a rare source. Both need only the order of the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Run:
    """Neighbouring rows of one source; `allowed` is the longest run that chance allows this source."""

    source: str
    first_row: int
    length: int
    allowed: int


@dataclass(frozen=True)
class Window:
    """The window in which a source's share is furthest from its overall share; `gap` is |difference|."""

    source: str
    first_row: int
    rows: int
    share: float
    overall: float

    @property
    def gap(self) -> float:
        """|share in the window - overall share|, in [0, 1]."""
        return abs(self.share - self.overall)


def longest_allowed_run(rows: int, of_source: int, probability: float) -> int:
    """Longest run of a source that a random order shows with more than a given probability.

    In a random order of n rows, m of them of the source, a run of at least r starts at the first row with
    probability q(r) = m/n * (m-1)/(n-1) * ... (r factors), and at each of the n-r later places where it fits
    with probability q(r) * (n-m)/(n-r), since the row before must be of another source. By the union bound

        P(a run of at least r) <= q(r) * (1 + (n-r) * (n-m)/(n-r)) = q(r) * (n-m+1),

    which for many rows is about n (1-p) p^r with p = m/n. The smallest r for which this is at most
    `probability` is refused; one less is allowed. Where all rows are of the source, every run is, and so it is
    with a probability of 0, which no run falls below.
    """
    if probability == 0:
        return of_source  # below, the product of many factors would come to 0 as well
    bound = float(rows - of_source + 1)
    for length in range(1, of_source + 1):
        bound *= (of_source - length + 1) / (rows - length + 1)
        if bound <= probability:
            return length - 1
    return of_source


def worst_run(sources: Sequence[str], probability: float) -> Run:
    """The longest run among those that chance does not allow; where there is none, the longest of all.

    Raises:
        ValueError: there are no rows.
    """
    codes, names = pd.factorize(np.asarray(sources, dtype=object))
    if not len(codes):
        raise ValueError("no rows")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1))
    lengths = np.diff(np.concatenate((starts, [len(codes)])))
    allowed = [longest_allowed_run(len(codes), int(count), probability) for count in np.bincount(codes)]
    runs = []
    for code, name in enumerate(names):
        of_source = np.flatnonzero(codes[starts] == code)
        longest = of_source[lengths[of_source].argmax()]
        runs.append(Run(str(name), int(starts[longest]), int(lengths[longest]), allowed[code]))
    return max(runs, key=lambda run: (run.length > run.allowed, run.length))


def worst_window(sources: Sequence[str], window: int) -> Window:
    """The window, among all of `window` neighbouring rows, that is furthest from the overall shares.

    With fewer rows than that the one window is the whole table, whose gap is 0: what is wrong with the order
    of so few rows, the runs must say.

    Raises:
        ValueError: there are no rows.
    """
    codes, names = pd.factorize(np.asarray(sources, dtype=object))
    if not len(codes):
        raise ValueError("no rows")
    size = min(window, len(codes))
    worst = None
    for code, name in enumerate(names):
        before = np.concatenate(([0], np.cumsum(codes == code)))
        shares = (before[size:] - before[:-size]) / size
        overall = before[-1] / len(codes)
        first = int(np.abs(shares - overall).argmax())
        found = Window(str(name), first, size, float(shares[first]), float(overall))
        if worst is None or found.gap > worst.gap:
            worst = found
    assert worst is not None
    return worst
