"""What the models of parameters are built from, here and in rooms that have parameters of their own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.errors import InputError


class Section(BaseModel):
    """A frozen group of parameters that refuses unknown keys and wrong types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]
Float = Annotated[float, Field(strict=False, allow_inf_nan=False, ge=0)]


class SplitCounts(Section):
    """A number for each split."""

    train: Positive
    validation: Positive
    test: Positive

    def by_split(self) -> dict[Literal["train", "validation", "test"], int]:
        """The numbers by the split's name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def _choices(kind: Any) -> list[Any]:
    """The types that a value may have, less None and what annotations add to a type."""
    if get_origin(kind) is Annotated:
        return _choices(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [one for member in get_args(kind) if member is not NoneType for one in _choices(member)]
    return [kind]


def place(model: type[BaseModel], loc: Sequence[str | int]) -> Iterator[tuple[str | int, Any]]:
    """The keys of an error's place and, with each, the type that holds it; None where it is no type of ours.

    Where a value may be of several types, pydantic puts the one it has tried into the place: that is no key.
    """
    kinds: list[Any] = [model]
    for part in loc:
        if len(kinds) > 1:
            kinds = [kind for kind in kinds if getattr(kind, "__name__", None) == part]
            continue
        holder = kinds[0] if kinds else None
        yield part, holder
        if isinstance(holder, type) and issubclass(holder, BaseModel):
            fields = holder.model_fields.items()
            kinds = [one for name, field in fields if part in (name, field.alias) for one in _choices(field.annotation)]
        elif get_origin(holder) in (list, dict):
            kinds = _choices(get_args(holder)[-1])
        else:
            kinds = []


def refusal(error: ValidationError, model: type[BaseModel], *, where: str | None, below: str = "") -> InputError:
    """The line that says what is wrong with parameters: the first fault, and how many more there are.

    Args:
        error: what `model` has raised.
        model: whose parameters they are.
        where: the files that they stand in.
        below: the key that `model` stands at, with a dot at its end; empty for the whole.
    """
    faults: dict[tuple[str | int, ...], Any] = {}
    for one in error.errors():
        faults.setdefault(tuple(key for key, _ in place(model, one["loc"])), one)
    # A type that the value did not have is no fault where another of its types fits, but for a key in it.
    deepest = [keys for keys in faults if not any(keys == other[: len(keys)] != other for other in faults)]
    # An unknown key comes first: where a key is misspelt, the one that is meant is missing as well.
    keys, *more = sorted(deepest, key=lambda one: faults[one]["type"] != "extra_forbidden")
    first = faults[keys]
    key = below + ".".join(map(str, keys))
    others = f" (and {len(more)} more)" if more else ""
    if first["type"] == "extra_forbidden":
        *_, (unknown, holder) = place(model, first["loc"])
        valid = [field.alias or name for name, field in holder.model_fields.items()]
        near = difflib.get_close_matches(str(unknown), valid, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"its keys are: {', '.join(valid)}"
        return InputError(f"unknown key {key!r}{others}", where=where, mend=hint)
    if first["type"] == "missing":
        return InputError(f"key {key!r} is missing{others}", where=where, mend="name it there")
    got = first.get("input")
    shown = f", got {got!r}" if isinstance(got, str | int | float | bool) or got is None else ""
    message = first["msg"].removeprefix("Value error, ")
    named = f"{key.removesuffix('.')}: " if key else ""
    return InputError(f"{named}{message}{shown}{others}", where=where)
