"""The language of the gate's thresholds as a tree that prints itself; `tasks.release.parsing` reads it from text.

    comparison = sum (">=" | "<=" | ">" | "<" | "==" | "!=") sum
    sum        = product {("+" | "-") product}
    product    = factor {("*" | "/") factor}
    factor     = ("+" | "-") factor | number | figure | call | "(" sum ")"
    call       = "abs" "(" sum ")" | "quantile" "(" series "," number ")" | FUNCTION "(" series ")"
    series     = "steps" "[" string "]" ["[" [integer] ":" [integer] [":" [integer]] "]"]
    figure     = STAGE "." part {"." part};  a part is letters, digits, _ @ / -, or a string

Decided: a parser of our own, since Python's grammar allows too much and a name such as `rl-sft` or `actor/entropy`
is no name in it. In return `-` and `/` between two names need spaces around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = (">=", "<=", "==", "!=", ">", "<")
SERIES_FUNCTIONS = ("first", "last", "min", "max", "mean", "median", "std", "sum", "count")
FUNCTIONS = (*SERIES_FUNCTIONS, "quantile", "abs")
PART = r"[\w@](?:[\w@/-]*[\w@])?"  # of a figure's path, as it stands without quotes


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    value: float

    def __str__(self) -> str:
        return str(int(self.value)) if self.value.is_integer() and self.value < 1e15 else repr(self.value)


@dataclass(frozen=True)
class Figure:
    """A figure of a stage by its path; the stage's name comes first."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(part if re.fullmatch(PART, part) else _quoted(part) for part in self.path)


@dataclass(frozen=True)
class Series:
    """The values of an RL metric in the order of the steps that have it, or a slice of them."""

    metric: str
    span: tuple[int | None, int | None, int | None] | None

    def __str__(self) -> str:
        text = f"steps[{_quoted(self.metric)}]"
        if self.span is None:
            return text
        start, stop, step = ("" if end is None else str(end) for end in self.span)
        return f"{text}[{start}:{stop}{f':{step}' if step else ''}]"


@dataclass(frozen=True)
class Call:
    """A function of a series, or `abs` of a number; `share` is the second argument of `quantile`."""

    function: str
    argument: Series | Node
    share: float | None = None

    def __str__(self) -> str:
        share = "" if self.share is None else f", {Number(self.share)}"
        return f"{self.function}({self.argument}{share})"


@dataclass(frozen=True)
class Negation:
    """A number with the other sign."""

    operand: Node

    def __str__(self) -> str:
        return f"-({self.operand})" if isinstance(self.operand, Operation) else f"-{self.operand}"


@dataclass(frozen=True)
class Operation:
    """Two numbers and one of + - * /."""

    operator: str
    left: Node
    right: Node

    def __str__(self) -> str:
        times = self.operator in "*/"
        left, right = str(self.left), str(self.right)
        if times and isinstance(self.left, Operation) and self.left.operator in "+-":
            left = f"({left})"
        if isinstance(self.right, Operation) and (times or self.right.operator in "+-"):
            right = f"({right})"
        return f"{left} {self.operator} {right}"


Node = Number | Figure | Call | Negation | Operation


@dataclass(frozen=True)
class Comparison:
    """A whole expression."""

    operator: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


def leaves(node: Comparison | Node | Series) -> Iterator[Figure | Series]:
    """Every figure and every series that an expression reads."""
    if isinstance(node, Figure | Series):
        yield node
    elif isinstance(node, Comparison | Operation):
        yield from leaves(node.left)
        yield from leaves(node.right)
    elif isinstance(node, Negation):
        yield from leaves(node.operand)
    elif isinstance(node, Call):
        yield from leaves(node.argument)


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'
