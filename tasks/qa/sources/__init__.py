"""Sources: the forms in which questions and passages come. Adding one adds a module and edits nothing else.

`NAME.py` holds a class `Source` after `tasks/qa/sources/base.py`. A question set names it by its `reader`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import ValidationError

from tasks.errors import InputError
from tasks.qa.sources.base import Keys, Source
from tasks.qa.sources.files import FileSource
from tasks.sections import place as place_of

CORPUS = "ingest.corpus"
# Fewer keys are anybody's: `question` and `answer` say nothing about a form.
_TELLING = 3
_SHOWN = 120


@cache
def registry() -> dict[str, type[Source]]:
    """Every source's class by its `reader`.

    Raises:
        TypeError: two modules claim one reader.
    """
    found: dict[str, type[Source]] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        source = getattr(importlib.import_module(f"{__name__}.{module}"), "Source", None)
        if source is None or source is Source:
            continue
        if source.reader in found:
            raise TypeError(f"two sources call themselves {source.reader!r}: {found[source.reader]}, {source}")
        found[source.reader] = source
    return found


def fitting(keys: Iterable[str], ending: str, like: type[Source]) -> str | None:
    """The reader that would take a file whose rows have these keys; None where there is none.

    Of several it is the one that needs the most keys, and of these the last by name: a published form, not one's own.

    Args:
        keys: of a row, or the columns.
        ending: of the file's name, without .gz.
        like: a source of questions or of passages: a reader of the same is looked for.
    """
    given = set(keys)
    needs = {
        reader: set(source.required)
        for reader, source in registry().items()
        if issubclass(source, FileSource) and ending in source.endings and source.brings == like.brings
    }
    fit = [reader for reader, needed in needs.items() if needed <= given and len(needed) >= _TELLING]
    return max(fit, key=lambda reader: (len(needs[reader]), reader), default=None)


def source_keys(entry: Any, place: str, where: str | None = None) -> Keys:
    """Check an entry of `ingest.sources`, or `ingest.corpus`, against the keys of the source it names.

    Args:
        entry: the entry as a mapping.
        place: its key: `ingest.corpus`, where passages are wanted; or `ingest.sources.0`, where questions are.
        where: the files that it stands in.

    Raises:
        InputError: there is no such reader, it reads something else, or a key or value is wrong.
    """
    reader = entry.get("reader")
    known = registry()
    if reader not in known:
        near = difflib.get_close_matches(str(reader), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"readers are: {', '.join(known)}"
        raise InputError(f"{place}.reader: no reader {reader!r}", where=where, mend=hint)
    wanted = "passages" if place == CORPUS else "questions"
    if known[reader].brings != wanted:
        hint = f"readers of {wanted} are: {', '.join(name for name, one in known.items() if one.brings == wanted)}"
        raise InputError(
            f"{place}.reader: {reader!r} reads {known[reader].brings}, not {wanted}", where=where, mend=hint
        )
    model = known[reader].Keys
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        # An unknown key comes first: where a key is misspelt, the one that is meant is missing as well.
        first, *more = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    key = ".".join(map(str, (place, *first["loc"])))
    others = f" (and {len(more)} more)" if more else ""
    if first["type"] == "extra_forbidden":
        *_, (unknown, holder) = place_of(model, first["loc"])
        valid = list(holder.model_fields)
        near = difflib.get_close_matches(str(unknown), valid, n=1, cutoff=0.4)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"unknown key {key!r}{others}", where=where, mend=f"{meant}its keys are: {', '.join(valid)}")
    if first["type"] == "missing":
        raise InputError(f"key {key!r} is missing{others}", where=where, mend="name it in this item")
    message = first["msg"].removeprefix("Value error, ")
    raise InputError(f"{key}: {message}, got {repr(first['input'])[:_SHOWN]}{others}", where=where)
