"""The gate's thresholds: what an expression means, and what it says of given figures. Pure functions.

Two forms:

    STAGE.path.to.figure OP NUMBER        evaluate.comparisons.rl-sft.em.low >= 0.0
    FUNC(steps["METRIC"]) OP NUMBER       last(steps["actor/entropy"]) >= 0.01

OP is one of >= <= > < == !=; FUNC is first, last, min, max or mean over the RL steps in their order.
A figure that is missing or not a number never passes.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from tasks.errors import InputError

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda series: series[0],
    "last": lambda series: series[-1],
    "min": min,
    "max": max,
    "mean": fmean,
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_OPERATOR = r">=|<=|==|!=|>|<"
_FIGURE = re.compile(rf"(?P<path>[\w@/-]+(?:\.[\w@/-]+)+)\s*(?P<op>{_OPERATOR})\s*(?P<number>{_NUMBER})")
_SERIES = re.compile(
    rf"(?P<function>\w+)\(\s*steps\[(?P<quote>[\"'])(?P<metric>[^\"']+)(?P=quote)\]\s*\)"
    rf"\s*(?P<op>{_OPERATOR})\s*(?P<number>{_NUMBER})"
)

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Threshold:
    """A parsed expression: a figure's path, or a function over the series of one RL metric."""

    name: str
    expression: str
    severity: Severity
    operator: str
    number: float
    path: tuple[str, ...] = ()
    function: str | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a threshold says of the figures; `value` is None when there is no number, `reason` says why it failed."""

    threshold: Threshold
    value: float | None
    passed: bool
    reason: str | None


def parse(name: str, expression: str, severity: Severity, stages: Sequence[str]) -> Threshold:
    """Read one expression.

    Args:
        name: the check's key in `gate.checks`.
        expression: see the module's docstring.
        severity: an error rejects, a warning never does.
        stages: names that a path may start with.

    Raises:
        InputError: it is no expression, or names an unknown stage or function.
    """
    where, text = f"gate.checks.{name}", expression.strip()
    if found := _SERIES.fullmatch(text):
        if found["function"] not in FUNCTIONS:
            raise InputError(f"unknown function {found['function']!r}", where=where, mend=f"use {', '.join(FUNCTIONS)}")
        return Threshold(
            name, expression, severity, found["op"], float(found["number"]),
            function=found["function"], metric=found["metric"],
        )  # fmt: skip
    if found := _FIGURE.fullmatch(text):
        path = tuple(found["path"].split("."))
        if path[0] not in stages:
            known = ", ".join(stages)
            raise InputError(f"the gate reads no stage {path[0]!r}", where=where, mend=f"use one of {known}")
        return Threshold(name, expression, severity, found["op"], float(found["number"]), path=path)
    raise InputError(
        f"cannot read {expression!r}",
        where=where,
        mend='write STAGE.path.to.figure >= NUMBER, or last(steps["METRIC"]) >= NUMBER (>= <= > < == !=)',
    )


def check(threshold: Threshold, figures: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Verdict:
    """Compare one figure with its threshold.

    Args:
        threshold: from `parse`.
        figures: each stage's figures by its name.
        steps: the RL steps' metrics in their order; a step may lack a metric.
    """
    found = _series(threshold, steps) if threshold.function else _look_up(threshold.path, figures)
    if isinstance(found, str):
        return Verdict(threshold, None, False, found)
    if not math.isfinite(found):
        return Verdict(threshold, None, False, f"the figure is {found}")
    passed = OPERATORS[threshold.operator](found, threshold.number)
    reason = None if passed else f"{found:g} is not {threshold.operator} {threshold.number:g}"
    return Verdict(threshold, found, passed, reason)


def decide(verdicts: Sequence[Verdict]) -> Literal["released", "rejected"]:
    """Released when no check of severity error failed."""
    failed = any(not verdict.passed and verdict.threshold.severity == "error" for verdict in verdicts)
    return "rejected" if failed else "released"


def _look_up(path: Sequence[str], figures: Mapping[str, Any]) -> float | str:
    value: Any = figures
    for depth, part in enumerate(path):
        if not isinstance(value, Mapping) or part not in value:
            return f"there is no figure {'.'.join(path[: depth + 1])}"
        value = value[part]
    return float(value) if isinstance(value, bool | int | float) else f"{'.'.join(path)} is no number: {value!r}"


def _series(threshold: Threshold, steps: Sequence[Mapping[str, Any]]) -> float | str:
    metric = threshold.metric or ""
    series = [step[metric] for step in steps if metric in step]
    if not series:
        return f"no step has the metric {metric!r}"
    numbers = [float(value) for value in series if isinstance(value, bool | int | float)]
    if len(numbers) < len(series):
        return f"a step's {metric!r} is no number"
    # min and max would step over a NaN silently.
    broken = next((value for value in numbers if not math.isfinite(value)), None)
    if broken is not None:
        return f"a step's {metric!r} is {broken}"
    return FUNCTIONS[threshold.function or ""](numbers)
