"""The columns of a table of rows, down to the nested ones, and how a field is found in them.

Paths name nested columns: `extra_info.question`, `prompt[].role`, where `[]` is a list's element. A *stage* table
has the columns that ingest writes. Any *other* table of verl's rows needs less, and its fields may stand where
Search-R1's or verl's own examples have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from tasks.errors import InputError
from tasks.qa import prompts
from tasks.qa.reading.opening import PARQUET, regular

Kind = Literal["text", "integer", "any"]

# Field, kind, and the paths where it may stand, the first one that is there is taken; the first is ingest's.
_FIELDS: tuple[tuple[str, Kind, tuple[str, ...]], ...] = (
    ("data_source", "text", ("data_source",)),
    ("environment", "text", ("environment",)),
    ("agent_name", "text", ("agent_name",)),
    ("role", "text", ("prompt[].role",)),
    ("content", "text", ("prompt[].content",)),
    ("ability", "text", ("ability",)),
    ("style", "text", ("reward_model.style",)),
    ("ground_truth", "any", ("reward_model.ground_truth",)),
    ("index", "integer", ("extra_info.index",)),
    ("split", "text", ("extra_info.split",)),
    ("id", "text", ("extra_info.id", "id")),
    ("question", "text", ("extra_info.question", "question")),
    (
        "answers",
        "text",
        (
            "extra_info.golden_answers[]",
            "golden_answers[]",
            "reward_model.ground_truth.target[]",
            "reward_model.ground_truth.target",
            "reward_model.ground_truth[]",
            "reward_model.ground_truth",
            "extra_info.answer",
        ),
    ),
    ("hops", "integer", ("extra_info.hops", "hops")),
    ("titles", "text", ("extra_info.supporting_titles[]", "supporting_titles[]")),
    ("golds", "text", ("extra_info.gold_passage_ids[]", "gold_passage_ids[]")),
)
NEEDED = ("data_source", "role", "content", "ground_truth", "answers")
_TYPED = (*NEEDED, "question")  # where it stands it must have its type; without it the prompt is the question
_SHOWN = 40
_NAMES = {"text": "string", "integer": "int64", "any": "any type"}


def open_table(path: Path) -> pq.ParquetFile:
    """A parquet file, ready to be read.

    Raises:
        InputError: it is missing, can't be read, a folder, or no whole parquet file.
    """
    regular(path)
    with path.open("rb") as file:
        head = file.read(_SHOWN)
    if not head.startswith(PARQUET):
        what = repr(head)[1:] if head.isascii() else "bytes"
        mend = "write the rows as parquet; `ingest` reads CSV and JSON"
        raise InputError(f"not parquet: it begins with {what}", where=str(path), mend=mend)
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"not a whole parquet file: {str(error).splitlines()[0]}", where=str(path), mend="write it again"
        ) from None


def leaves(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Type of every column that holds values, by its path."""
    return dict(leaf for field in schema for leaf in _leaves(field.name, field.type))


def _leaves(path: str, of: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    yield path, of
    if pt.is_struct(of):
        for field in of:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pt.is_list(of) or pt.is_large_list(of) or pt.is_fixed_size_list(of):
        yield from _leaves(f"{path}[]", of.value_type)


def fits(of: pa.DataType, kind: Kind) -> bool:
    """Whether a column of a type can hold values of a kind."""
    if pt.is_dictionary(of):
        of = of.value_type
    # A column without any value has the type null; that its values are missing is told row by row.
    if kind == "any" or pt.is_null(of):
        return True
    return (
        pt.is_integer(of) if kind == "integer" else pt.is_string(of) or pt.is_large_string(of) or of == pa.string_view()
    )


def resolve(schema: pa.Schema, *, stage: bool) -> tuple[dict[str, str], list[str]]:
    """Where the fields of a table stand, and what is wrong with its columns.

    Args:
        schema: of the parquet file.
        stage: whether every field must stand where ingest puts it.

    Returns:
        path by field; and for each fault the column's path, what it has and what it should have.
    """
    found = leaves(schema)
    paths: dict[str, str] = {}
    faults = [f"{name}: comes twice" for name, count in Counter(schema.names).items() if count > 1]
    for field, kind, known in _FIELDS:
        candidates = known[:1] if stage else known
        path, fault = _place(candidates, kind, found)
        if path is None and fault is None and (stage or field in NEEDED):
            fault = f"{candidates[0]}: missing, wanted {_NAMES[kind]}"
        if path is not None:
            paths[field] = path
        if fault is not None and (stage or field in _TYPED):
            faults.append(fault)
    return paths, faults


def _place(candidates: Sequence[str], kind: Kind, found: dict[str, pa.DataType]) -> tuple[str | None, str | None]:
    """The path at which a field stands, or what is wrong with the column in its first place; neither: it is nowhere.

    A column of another type is never passed over for one in a later place, a structure without the field is.
    """
    columns = [path.removesuffix("[]") for path in candidates]
    for column in dict.fromkeys(columns):
        if column not in found:
            continue
        forms = [path for path in candidates if path.removesuffix("[]") == column]
        fitting = [path for path in forms if path in found and fits(found[path], kind)]
        if fitting:
            return fitting[0], None
        if pt.is_struct(found[column]) and column != columns[-1]:
            continue
        if forms[0] in found:
            return None, f"{forms[0]}: got {found[forms[0]]}, wanted {_NAMES[kind]}"
        return None, f"{column}: got {found[column]}, wanted list<{_NAMES[kind]}>"
    return None, None


def column(batch: pa.RecordBatch, path: str) -> pa.Array:
    """The values at a path, one a row: a list where the path ends in `[]`; null where anything above is null."""
    first, *names = path.removesuffix("[]").split(".")
    values = batch.column(first)
    for name in names:
        values = pc.struct_field(values, name)
    return values


def prompt_fault(prompt: Any) -> str | None:
    """What keeps a prompt from being a conversation that the policy can continue."""
    messages = [] if prompt is None else list(prompt)
    if not messages or any(not (isinstance(m, dict) and m.get("role") and m.get("content")) for m in messages):
        return "prompt: a message without role or content"
    return None if messages[-1]["role"] == "user" else "prompt: does not end with the user"


def question_fault(prompt: Any, question: str) -> str | None:
    """What keeps a valid prompt from asking a question, whatever space is between its words."""
    if not question:
        return "prompt: asks nothing"
    return None if prompts.holds(prompt[-1]["content"], question) else "prompt: does not hold the question"


def asked(prompt: Any) -> str:
    """The question of a prompt: the user's last message, of which what follows the last `Question:`; "" without one."""
    messages = [m for m in prompt or () if isinstance(m, dict) and m.get("role") == "user" and m.get("content")]
    return prompts.asked(messages[-1]["content"]) if messages else ""
