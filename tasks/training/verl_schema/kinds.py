"""Which values a key of verl's takes: from the annotation of its dataclass, and from the value it has by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.training.verl_schema import classes

ANY, NULL, KEYS = "any", "null", "keys"
_NAMES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "dict": KEYS,
    "BaseConfig": KEYS,
} | dict.fromkeys(("list", "tuple", "List", "Iterable", "Sequence"), "list")
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    KEYS: "keys with values",
    NULL: "null",
}


def of_annotation(annotation: ast.expr | None) -> frozenset[str]:
    """The kinds that an annotation allows; empty without one."""
    if annotation is None:
        return frozenset()
    if isinstance(annotation, ast.Constant):  # None, or an annotation in quotes
        text = annotation.value
        return frozenset({NULL}) if text is None else of_annotation(ast.parse(str(text), mode="eval").body)
    if isinstance(annotation, ast.BinOp):
        return of_annotation(annotation.left) | of_annotation(annotation.right)
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value).rpartition(".")[2]
        if outer == "Optional":
            return of_annotation(annotation.slice) | {NULL}
        if outer == "Literal":
            choices = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return frozenset(kind for choice in choices for kind in of_value(ast.literal_eval(choice)))
        return of_annotation(annotation.value)
    name = ast.unparse(annotation).rpartition(".")[2]
    return frozenset({KEYS if classes.is_class(name) else _NAMES.get(name, ANY)})


def class_in(annotation: ast.expr | None) -> str | None:
    """The one of verl's classes that an annotation names, if any."""
    names = [node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)] if annotation else []
    # A mapping of NAME to such a class is no such class.
    return next((name for name in names if classes.is_class(name)), None) if "dict" not in names else None


def of_value(value: Any) -> frozenset[str]:
    """The kind of a value as YAML has it."""
    if value is None:
        return frozenset({NULL})
    if isinstance(value, dict):
        return frozenset({KEYS})
    if isinstance(value, list | tuple):
        return frozenset({"list"})
    return frozenset({type(value).__name__})


def is_plain(value: Any) -> bool:
    """Whether OmegaConf can hold a value; YAML also knows dates, sets and bytes."""
    return value is None or isinstance(value, bool | int | float | str | dict | list)


def inside(value: Any) -> Iterator[Any]:
    """A value, and all that its mappings and lists hold."""
    yield value
    below = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in below:
        yield from inside(one)


def fits(value: Any, allowed: frozenset[str]) -> bool:
    """Whether a value is of an allowed kind; a whole number is a number, and `${...}` is what it refers to."""
    if ANY in allowed or (isinstance(value, str) and "${" in value):
        return True
    (kind,) = of_value(value)
    return kind in allowed or (kind == "int" and "float" in allowed)


def wanted(allowed: frozenset[str]) -> str:
    """The allowed kinds in words."""
    return " or ".join(words for kind, words in _WORDS.items() if kind in allowed)


def fault(value: Any, allowed: frozenset[str]) -> str:
    """What is wrong with a value that does not fit."""
    hint = ""
    if isinstance(value, str) and allowed & {"int", "float"} and _is_number(value):
        # YAML 1.1, which is read here, takes 1e-5 for text.
        hint = f" as text; in YAML a number has a dot before its exponent and no quotes: {float(value):.1e}"
    return f"must be {wanted(allowed)}, got {value!r}{hint}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
