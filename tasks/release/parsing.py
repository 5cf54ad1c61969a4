"""Reads the gate's expressions, see `tasks.release.expressions`: recursive descent over tokens. Nothing is executed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.errors import InputError
from tasks.release.expressions import (
    COMPARISONS,
    FUNCTIONS,
    PART,
    Call,
    Comparison,
    Figure,
    Negation,
    Node,
    Number,
    Operation,
    Series,
    leaves,
)  # fmt: skip

LONGEST = 500  # characters; with it the tree's depth is bounded, and so is the recursion over it
DEEPEST = 32  # parentheses, calls and signs within each other
_STRING = r"\"[^\"\n]*\"|'[^'\n]*'"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<string>{_STRING})
    |(?P<name>[A-Za-z_]\w*(?:\.(?:{_STRING}|{PART}))*)
    |(?P<sign>>=|<=|==|!=|[-+*/()\[\]:,<>])""",
    re.VERBOSE,
)


def parse(text: str, *, roots: Sequence[str], where: str) -> Comparison:
    """Read an expression.

    Args:
        text: see the docstring of `tasks.release.expressions`.
        roots: names that a figure's path may start with.
        where: the key that the text stands at, for errors.

    Raises:
        InputError: it is no expression; the line names the column and what was expected there.
    """
    return _Parser(text, roots, where).comparison()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        return repr(self.text) if self.text else "the end"


class _Parser:
    """Recursive descent over the tokens, one token ahead."""

    def __init__(self, text: str, roots: Sequence[str], where: str) -> None:
        self._text, self._roots, self._where, self._depth = text, roots, where, 0
        if len(text) > LONGEST:
            raise InputError(f"an expression of {len(text)} characters; at most {LONGEST} are read", where=where)
        self._tokens = self._split()
        self._next = next(self._tokens)

    def comparison(self) -> Comparison:
        left = self._sum()
        operator = self._next
        if operator.text not in COMPARISONS:
            raise self._expected(f"a comparison ({' '.join(COMPARISONS)})")
        self._advance()
        found = Comparison(operator.text, left, self._sum())
        if self._next.text in COMPARISONS:
            raise self._refusal(self._next, "a second comparison", "write a check of its own for it")
        if self._next.kind != "end":
            raise self._expected("+ - * / or the end")
        if next(leaves(found), None) is None:
            first = _Token("", "", 1)
            raise self._refusal(first, "the expression reads no figure", "name one as STAGE.path.to.figure")
        return found

    def _sum(self) -> Node:
        found = self._product()
        while self._next.text in ("+", "-"):
            found = Operation(self._advance().text, found, self._product())
        return found

    def _product(self) -> Node:
        found = self._factor()
        while self._next.text in ("*", "/"):
            found = Operation(self._advance().text, found, self._factor())
        return found

    def _factor(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._refusal(self._next, f"nested deeper than {DEEPEST}", "write it flatter")
        found = self._one()
        self._depth -= 1
        return found

    def _one(self) -> Node:
        token = self._next
        if token.text in ("+", "-"):
            self._advance()
            operand = self._factor()
            return Negation(operand) if token.text == "-" else operand
        if token.text == "(":
            self._advance()
            found = self._sum()
            self._take(")")
            return found
        if token.kind == "number":
            return self._number()
        if token.kind == "name":
            return self._named()
        raise self._expected("a number, a figure or a function")

    def _number(self) -> Number:
        if self._next.kind != "number":
            raise self._expected("a number")
        value = float(self._next.text)
        if value == float("inf"):
            raise self._refusal(self._next, "a number too large for a float", "write a smaller one")
        self._advance()
        return Number(value)

    def _named(self) -> Figure | Call:
        token = self._next
        if token.text == "steps":
            mend = 'put a function around it, such as last(steps["METRIC"])'
            raise self._refusal(token, "a series is no number", mend)
        self._advance()
        if self._next.text == "(":
            return self._call(token)
        path = tuple(re.findall(rf"{_STRING}|{PART}", token.text))
        if path[0] not in self._roots:
            near = difflib.get_close_matches(path[0], self._roots, n=1)
            mend = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(self._roots)}"
            raise self._refusal(token, f"the gate reads no stage {path[0]!r}", mend)
        if len(path) == 1:
            raise self._refusal(token, f"{path[0]} is no figure", f"name one of its figures: {path[0]}.path.to.figure")
        return Figure(tuple(part[1:-1] if part[0] in "\"'" else part for part in path))

    def _call(self, name: _Token) -> Call:
        if name.text not in FUNCTIONS:
            raise self._refusal(name, f"unknown function {name.text!r}", f"use {', '.join(FUNCTIONS)}")
        self._take("(")
        share = None
        argument: Series | Node
        if name.text == "abs":
            argument = self._sum()
        elif self._next.text == "steps":
            argument = self._series()
        else:
            raise self._expected(f'a series for {name.text}, such as steps["METRIC"][-20:]')
        if name.text == "quantile":
            self._take(",")
            token = self._next
            share = self._number().value
            if share > 1:
                raise self._refusal(token, "a quantile's share is between 0 and 1", "write 0.9 for the upper tenth")
        self._take(")")
        return Call(name.text, argument, share)

    def _series(self) -> Series:
        self._advance()
        self._take("[")
        if self._next.kind != "string":
            raise self._expected("a metric's name in quotes")
        metric = self._advance().text[1:-1]
        self._take("]")
        if self._next.text != "[":
            return Series(metric, None)
        self._advance()
        start = self._integer()
        if self._next.text != ":":
            raise self._expected("':' of a slice, such as [-20:]")
        self._advance()
        stop, step = self._integer(), None
        if self._next.text == ":":
            self._advance()
            token = self._next
            step = self._integer()
            if step == 0:
                raise self._refusal(token, "a slice's step is 0", "take another one")
        self._take("]")
        return Series(metric, (start, stop, step))

    def _integer(self) -> int | None:
        minus = self._next.text == "-"
        if minus:
            self._advance()
        if self._next.kind == "number" and self._next.text.isdecimal():
            value = int(self._advance().text)
            return -value if minus else value
        if minus or self._next.kind == "number":
            raise self._expected("a whole number")
        return None

    def _split(self) -> Iterator[_Token]:
        place = 0
        while place < len(self._text):
            found = _TOKEN.match(self._text, place)
            if found is None:
                token = _Token("", self._text[place], place + 1)
                raise self._refusal(token, f"{token} means nothing here", "equal is ==; odd names stand in quotes")
            if found.lastgroup != "space":
                yield _Token(found.lastgroup or "", found.group(), place + 1)
            place = found.end()
        while True:
            yield _Token("end", "", len(self._text) + 1)

    def _advance(self) -> _Token:
        token, self._next = self._next, next(self._tokens)
        return token

    def _take(self, sign: str) -> None:
        if self._next.text != sign:
            raise self._expected(repr(sign))
        self._advance()

    def _expected(self, what: str) -> InputError:
        mend = 'write STAGE.path.to.figure >= NUMBER, or last(steps["METRIC"]) >= NUMBER'
        return self._refusal(self._next, f"expected {what}, got {self._next}", mend)

    def _refusal(self, token: _Token, what: str, mend: str) -> InputError:
        return InputError(f"{self._text!r}, column {token.column}: {what}", where=self._where, mend=mend)
