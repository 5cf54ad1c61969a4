"""What the gate's thresholds say of given figures. Pure functions; `tasks.release.expressions` has the language.

A figure that is missing or not a finite number never passes, nor does what cannot be computed from such figures.
"""

from __future__ import annotations

import math
import operator
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tasks.errors import InputError
from tasks.release import parsing
from tasks.release.expressions import Call, Comparison, Figure, Negation, Node, Number, Operation, Series, leaves

AUDIT = "audit"  # what people have ticked: no stage, but figures of it are read like a stage's
COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
COMPUTE: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
REDUCE: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda series: series[0],
    "last": lambda series: series[-1],
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "median": statistics.median,
    "std": statistics.pstdev,
    "sum": math.fsum,
    "count": len,
}
# The field's own names of metrics hold these, so they belong to a name where no space is around them.
_JOINERS = "-/"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}")

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Threshold:
    """A check as it is asked for: an error rejects, a warning never does."""

    name: str
    expression: str
    severity: Severity
    comparison: Comparison

    def reads(self, root: str) -> bool:
        """Whether a figure of a stage is named."""
        return any(isinstance(leaf, Figure) and leaf.path[0] == root for leaf in leaves(self.comparison))

    def judges(self, model: str) -> bool:
        """Whether it rejects by a figure of that model on the held-out questions, its own or a comparison with it."""
        paths = [leaf.path for leaf in leaves(self.comparison) if isinstance(leaf, Figure)]
        of_model = any(
            path[:3] == ("evaluate", "models", model)
            or (path[:2] == ("evaluate", "comparisons") and path[2:3] and model in path[2].split("-"))
            for path in paths
        )
        return self.severity == "error" and of_model


@dataclass(frozen=True)
class Verdict:
    """What a threshold says of the figures.

    Attributes:
        value: of the left side; None when there is no number.
        limit: of the right side; None when there is no number.
        short_by: how far a value that failed is from the limit; None where it passed or no number says so.
        reason: why it failed; None where it passed.
    """

    threshold: Threshold
    value: float | None
    limit: float | None
    passed: bool
    short_by: float | None
    reason: str | None

    def plain(self) -> dict[str, Any]:
        """The verdict as the figures hold it."""
        return {
            "name": self.threshold.name,
            "expression": self.threshold.expression,
            "value": self.value,
            "limit": self.limit,
            "passed": self.passed,
            "severity": self.threshold.severity,
            "short_by": self.short_by,
            "reason": self.reason,
        }


class NoValueError(Exception):
    """There is no number to compare; its text is the reason."""


def parse(name: str, expression: str, severity: Severity, stages: Sequence[str]) -> Threshold:
    """Read one check.

    Args:
        name: the check's key in `gate.checks`; MLflow takes it for a part of a metric's name.
        expression: see `tasks.release.expressions`.
        severity: an error rejects, a warning never does.
        stages: whose figures may be named, beside `audit`.

    Raises:
        InputError: it is no expression, then the line names the column and what was expected there; or the name is
            none that MLflow takes.
    """
    if not _NAME.fullmatch(name):
        mend = "use letters from a to z, digits, _ - . and spaces, at most 100 of them"
        raise InputError(f"no name for a check: {name!r}", where="gate.checks", mend=mend)
    comparison = parsing.parse(expression, roots=(*stages, AUDIT), where=f"gate.checks.{name}")
    return Threshold(name, expression, severity, comparison)


def check(threshold: Threshold, figures: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Verdict:
    """Compare the two sides of a threshold.

    Args:
        threshold: from `parse`.
        figures: each stage's figures by its name, those of the audit by `audit`.
        steps: the RL steps' metrics in their order; a step may lack a metric.
    """
    sides: list[float | None] = []
    reasons: list[str] = []
    for node in (threshold.comparison.left, threshold.comparison.right):
        try:
            sides.append(_finite(node, figures, steps))
        except NoValueError as none:
            sides.append(None)
            reasons.append(str(none))
    value, limit = sides
    if value is None or limit is None:
        return Verdict(threshold, value, limit, False, None, "; ".join(dict.fromkeys(reasons)))
    sign = threshold.comparison.operator
    if COMPARE[sign](value, limit):
        return Verdict(threshold, value, limit, True, None, None)
    short = abs(value - limit)
    reason = _shortfall(value, sign, limit, short)
    return Verdict(threshold, value, limit, False, short if math.isfinite(short) else None, reason)


def figure(path: Sequence[str], figures: Mapping[str, Any]) -> float:
    """The number at a path.

    Raises:
        NoValueError: there is none, or it is not finite; the error says which part is missing.
    """
    value: Any = figures
    for depth, part in enumerate(path, start=1):
        if not isinstance(value, Mapping) or part not in value:
            spaces = f" (spaces around {' and '.join(_JOINERS)} compute)" if set(part) & set(_JOINERS) else ""
            raise NoValueError(f"there is no figure {Figure(tuple(path[:depth]))}{spaces}")
        value = value[part]
    return _number(value, str(Figure(tuple(path))))


def decide(verdicts: Sequence[Verdict]) -> Literal["released", "rejected"]:
    """Released when no check of severity error failed."""
    failed = any(not verdict.passed and verdict.threshold.severity == "error" for verdict in verdicts)
    return "rejected" if failed else "released"


def _shortfall(value: float, sign: str, limit: float, short: float) -> str:
    digits = next((n for n in (6, 12) if f"{value:.{n}g}" != f"{limit:.{n}g}"), 17)
    said = f"{value:.{digits}g} is not {sign} {limit:.{digits}g}"
    if short == 0:
        return said
    how = {">": "short by", ">=": "short by", "<": "too much by", "<=": "too much by"}.get(sign, "off by")
    return f"{said}, {how} {short:.4g}"


def _finite(node: Node, figures: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> float:
    try:
        found = _value(node, figures, steps)
    except ZeroDivisionError:
        raise NoValueError(f"{node} divides by zero") from None
    except OverflowError:  # a float's range is left: math.fsum says so, and so does an integer that is no float
        raise NoValueError(f"{node} is too large a number") from None
    if not math.isfinite(found):
        raise NoValueError(f"{node} is {found}")
    return found


def _value(node: Node, figures: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> float:
    match node:
        case Number(value):
            return value
        case Figure(path):
            return figure(path, figures)
        case Negation(operand):
            return -_value(operand, figures, steps)
        case Operation(sign, left, right):
            found = COMPUTE[sign](_value(left, figures, steps), _value(right, figures, steps))
            # What divides by an infinity would be 0, and might pass.
            return _number(found, str(node))
        case Call(function, Series() as series, share):
            numbers = _series(series, steps)
            return _quantile(numbers, share) if share is not None else float(REDUCE[function](numbers))
        case Call("abs", argument) if not isinstance(argument, Series):
            return abs(_value(argument, figures, steps))
    raise TypeError(f"no value of {node!r}")


def _series(series: Series, steps: Sequence[Mapping[str, Any]]) -> list[float]:
    having = [step[series.metric] for step in steps if series.metric in step]
    if not having:
        raise NoValueError(f"no step has the metric {series.metric!r}")
    if series.span is not None:
        having = having[slice(*series.span)]
    if not having:
        raise NoValueError(f"{series} is empty")
    return [_number(value, f"a step's {series.metric!r}") for value in having]


def _number(value: Any, name: str) -> float:
    if not isinstance(value, bool | int | float):
        raise NoValueError(f"{name} is no number: {value!r}")
    # min and max would step over a NaN silently.
    if not math.isfinite(value):
        raise NoValueError(f"{name} is {value}")
    return float(value)


def _quantile(numbers: Sequence[float], share: float) -> float:
    """Quantile by linear interpolation, as numpy's default."""
    ordered = sorted(numbers)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
