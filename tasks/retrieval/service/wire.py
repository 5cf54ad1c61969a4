"""What the front and a worker send each other: frames of a length and so many bytes.

A batch is JSON, `[number, [[query, topk, scores], ...]]`. Its reply is binary, so that the front need not read the
documents: the batch's number, how many answers, a head for each of them, and then their bytes in a row. Each head
holds the checksum of the query that was searched for: a reply that belongs to another batch or query is found out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import orjson

LENGTH = struct.Struct("!I")  # bytes that follow
MOST_BYTES = 1 << 30  # of a frame
_REPLY = struct.Struct("!QI")
_HEAD = struct.Struct("!IBI")  # the query's checksum, the state's number, bytes
# found: JSON of the documents. unavailable, failed: a line that says why.
State = Literal["found", "unavailable", "failed"]
_STATES: tuple[State, ...] = ("found", "unavailable", "failed")


class CrossedError(ValueError):
    """A reply that is not the one to the batch it should belong to."""


class Item(NamedTuple):
    """One query of a batch."""

    query: str
    topk: int
    scores: bool


class Answer(NamedTuple):
    """What became of one query."""

    state: State
    content: bytes


def checksum(item: Item) -> int:
    """CRC-32 of what is asked."""
    return zlib.crc32(item.query.encode(), 2 * item.topk + item.scores)


def dump_batch(number: int, items: Sequence[Item]) -> bytes:
    """A batch's frame."""
    text = orjson.dumps([number, [tuple(item) for item in items]])  # orjson knows no named tuples
    return LENGTH.pack(len(text)) + text


def load_batch(text: bytes) -> tuple[int, list[Item]]:
    """The opposite of `dump_batch`, without the length."""
    number, items = orjson.loads(text)
    return number, [Item(*item) for item in items]


def dump_reply(number: int, items: Sequence[Item], answers: Sequence[Answer]) -> bytes:
    """The frame of the reply to a batch."""
    parts = [_REPLY.pack(number, len(items))]
    parts += [
        _HEAD.pack(checksum(item), _STATES.index(answer.state), len(answer.content))
        for item, answer in zip(items, answers, strict=True)
    ]
    parts += [answer.content for answer in answers]
    return LENGTH.pack(sum(map(len, parts))) + b"".join(parts)


def load_reply(reply: bytes, number: int, items: Sequence[Item]) -> list[Answer]:
    """The answers of a reply's frame, without its length.

    Args:
        reply: the frame.
        number: of the batch that waits for it.
        items: of that batch.

    Raises:
        CrossedError: the reply has another number, another count, another query or another length.
    """
    heads_end = _REPLY.size + _HEAD.size * len(items)
    if len(reply) < heads_end or _REPLY.unpack_from(reply) != (number, len(items)):
        raise CrossedError("it answers another batch")
    answers, start = [], heads_end
    for item, (crc, state, length) in zip(items, _HEAD.iter_unpack(reply[_REPLY.size : heads_end]), strict=True):
        if crc != checksum(item) or state >= len(_STATES):
            raise CrossedError("it answers another query")
        answers.append(Answer(_STATES[state], reply[start : start + length]))
        start += length
    if start != len(reply):
        raise CrossedError("it is not as long as it says")
    return answers
