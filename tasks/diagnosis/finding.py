"""What the page says of one cause: whether it applies, the evidence for and against, and the mend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["applies", "fine", "not examined"]
Weight = Literal["against", "for", "missing"]
Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Evidence:
    """One observation: it speaks `against` the run, `for` it, or could not be made (`missing`)."""

    weight: Weight
    text: str


@dataclass(frozen=True)
class Plot:
    """Lines over the training steps.

    Attributes:
        title: what is drawn.
        lines: name of each line, and its points (step, value) in ascending steps.
        share: whether the values are shares, so that the axis goes from 0 to 1.
    """

    title: str
    lines: dict[str, Points]
    share: bool = True


@dataclass(frozen=True)
class Finding:
    """What came of one cause.

    Attributes:
        cause: its name, as in `catalogue.CAUSES`.
        title: the cause in a few words.
        verdict: `applies`, `fine`, or `not examined`, which is never the same as fine.
        evidence: what was observed, what speaks against the run first.
        mends: what to do; empty unless it applies.
        examples: texts of the run that show it, each under a heading.
        plot: lines over the steps, or None.
        follows: names of other causes that apply and usually bring this one about.
    """

    cause: str
    title: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    mends: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    plot: Plot | None = None
    follows: tuple[str, ...] = ()


@dataclass
class Look:
    """Collects what is seen of one cause; `finding` draws the conclusion."""

    cause: str
    title: str
    plot: Plot | None = None
    _seen: list[Evidence] = field(default_factory=list)
    _mends: list[str] = field(default_factory=list)
    _examples: list[tuple[str, str]] = field(default_factory=list)
    _lacking: bool = False

    def bad(self, text: str, mend: str, examples: Sequence[tuple[str, str]] = ()) -> None:
        """An observation that shows the cause, how to mend it, and texts (heading, text) that show it."""
        self._seen.append(Evidence("against", text))
        if mend not in self._mends:
            self._mends.append(mend)
        self._examples += examples

    def good(self, text: str) -> None:
        """An observation that speaks against the cause."""
        self._seen.append(Evidence("for", text))

    def missing(self, text: str) -> None:
        """What could not be observed, and why; the cause can be judged without it."""
        self._seen.append(Evidence("missing", text))

    def lacking(self, text: str) -> None:
        """What could not be observed and alone would show the cause: without it nothing is fine."""
        self.missing(text)
        self._lacking = True

    def judge(self, bad: bool, text: str, mend: str, examples: Sequence[tuple[str, str]] = ()) -> None:
        """`bad` or `good` by what was observed."""
        if bad:
            self.bad(text, mend, examples)
        else:
            self.good(text)

    def finding(self) -> Finding:
        """It applies with one bad observation, is fine where nothing was lacking, and otherwise was not examined."""
        weights = {one.weight for one in self._seen}
        whole = "for" in weights and not self._lacking
        verdict: Verdict = "applies" if "against" in weights else "fine" if whole else "not examined"
        order = {"against": 0, "for": 1, "missing": 2}
        evidence = tuple(sorted(self._seen, key=lambda one: order[one.weight]))
        return Finding(self.cause, self.title, verdict, evidence, tuple(self._mends), tuple(self._examples), self.plot)
