"""Rows of demonstration files that the user brings: JSON lines in Search-R1's SFT form, each checked by itself.

A row is `{question, golden_answers[], chosen | messages}`; `id` and `data_source` may be named. `chosen` is the
assistant's text, observations included. `messages` is the prompt, or the prompt and the assistant's text.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tasks.agent.protocols import SearchR1
from tasks.qa.reading import RowError, kind

OWN = "own"  # the query policy, and the data source where a row names none
_MOST = 100  # characters of a text that a message shows
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def brief(text: str) -> str:
    """A text in quotes, cut to what a line can hold."""
    return repr(text if len(text) <= _MOST else f"{text[:_MOST]} ...")


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    role: Literal["system", "user", "assistant"]
    content: str


class Row(BaseModel):
    """The keys that are read; Search-R1's rows have further ones."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    question: _Text
    golden_answers: Annotated[list[_Text], Field(min_length=1)]
    chosen: _Text | None = None
    messages: list[Message] | None = None
    id: _Text | None = None
    data_source: _Text = OWN


def parse(content: dict[str, Any]) -> tuple[Row, str]:
    """A line's keys as a row, and the assistant's text.

    Raises:
        RowError: it is no row of that form.
    """
    try:
        row = Row.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
    else:
        return row, _chosen(row)
    key, wrong = ".".join(map(str, first["loc"])), first["type"]
    if wrong == "missing":
        raise RowError("missing_key", f"key {key!r} is missing")
    if wrong in ("too_short", "string_too_short"):
        raise RowError("empty", f"{key}: is empty")
    raise RowError("wrong_type", f"{key}: {first['msg']}, got {kind(first['input'])}")


def _chosen(row: Row) -> str:
    """The assistant's text, by `chosen` or by the last of the messages."""
    messages = row.messages or []
    roles = [message.role for message in messages]
    last = messages[-1].content.strip() if roles[-1:] == ["assistant"] else None
    asked = roles[:-1] if last is not None else roles
    if messages and (asked[-1:] != ["user"] or "assistant" in asked):
        raise RowError("messages", f"messages: must be a prompt and one assistant's text, got {brief(' '.join(roles))}")
    if messages and not any(row.question in message.content for message in messages if message.role == "user"):
        raise RowError("messages", f"messages: the prompt does not hold the question {brief(row.question)}")
    if row.chosen is not None and last is not None and row.chosen != last:
        raise RowError("messages", "messages: the assistant's text is not what chosen says")
    text = row.chosen or last
    if not text:
        raise RowError("missing_key", "key 'chosen' is missing, and messages has no assistant's text")
    return text


def turns(chosen: str, protocol: SearchR1) -> tuple[list[str], list[str]]:
    """The generated turns of a whole episode, and what was shown after each but the last.

    Raises:
        RowError: tags are not balanced, or blocks not in the protocol's order.
    """
    order: list[str] = []
    opened: str | None = None
    for mark in re.finditer("|".join(map(re.escape, protocol.tokens)), chosen):
        name, closes = mark.group().strip("</>"), mark.group().startswith("</")
        if (closes and name != opened) or (not closes and opened is not None):
            raise RowError("tags", f"chosen: {mark.group()} at character {mark.start()} is not balanced")
        opened = None if closes else name
        if opened:
            order.append(opened)
    if opened is not None:
        raise RowError("tags", f"chosen: <{opened}> is never closed")
    if not re.fullmatch(r"((think )*search information )*(think )*answer", " ".join(order)):
        raise RowError("tags", f"chosen: the protocol does not have this order of blocks: {brief(' '.join(order))}")
    pieces = re.split("<information>(.*?)</information>", chosen, flags=re.DOTALL)
    generated = [piece.strip() for piece in pieces[::2]]
    if any("<|" in turn for turn in generated):
        raise RowError("tags", "chosen: a chat mark, <|...|>, in a generated turn")
    return generated, pieces[1::2]
