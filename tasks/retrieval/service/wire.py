"""What the front and a worker send each other: frames of a length and so many bytes.

A batch is JSON, `[number, [[topk, scores, [query, ...]], ...]]`: queries that want the same stand together. Its reply
is binary, so that the front need not read the documents: the batch's number, how many answers, a head for each of
them, and then their bytes in a row. Each head holds the checksum of the query that was searched for: a reply that
belongs to another batch or query is found out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Literal

import orjson

LENGTH = struct.Struct("!I")  # bytes that follow
MOST_BYTES = 1 << 30  # of a frame
_REPLY = struct.Struct("!QI")
_HEAD = struct.Struct("!IBI")  # the query's checksum, the state's number, bytes
# found: JSON of the documents. unavailable, failed: a line that says why.
State = Literal["found", "unavailable", "failed"]
_STATES: tuple[State, ...] = ("found", "unavailable", "failed")
_NUMBERS = {state: number for number, state in enumerate(_STATES)}

# Plain tuples: thousands of them are made a second.
Item = tuple[str, int, bool]  # a query, passages wanted, whether with scores
Group = tuple[int, bool, list[str]]  # queries that want the same: passages wanted, whether with scores
Answer = tuple[State, bytes]  # what became of a query


class CrossedError(ValueError):
    """A reply that is not the one to the batch it should belong to."""


def _checksum(query: str, topk: int, scores: bool) -> int:
    return zlib.crc32(query.encode(), 2 * topk + scores)


def group(items: Sequence[Item]) -> list[Group]:
    """Neighbours that want the same, together."""
    return [
        (topk, scores, [query for query, _, _ in together])
        for (topk, scores), together in groupby(items, key=itemgetter(1, 2))
    ]


def dump_batch(number: int, items: Sequence[Item]) -> bytes:
    """A batch's frame."""
    text = orjson.dumps([number, group(items)])
    return LENGTH.pack(len(text)) + text


def load_batch(text: bytes) -> tuple[int, list[Group]]:
    """A batch of a frame, without its length; its queries, group by group, are in the order of the items."""
    number, groups = orjson.loads(text)
    return number, groups


def dump_reply(number: int, groups: Sequence[Group], answers: Sequence[Answer]) -> bytes:
    """The frame of the reply to a batch."""
    sums = [_checksum(query, topk, scores) for topk, scores, queries in groups for query in queries]
    parts = [b"", _REPLY.pack(number, len(sums))]
    parts += [
        _HEAD.pack(crc, _NUMBERS[state], len(content)) for crc, (state, content) in zip(sums, answers, strict=True)
    ]
    parts += [content for _, content in answers]
    parts[0] = LENGTH.pack(sum(map(len, parts)))
    return b"".join(parts)


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
    heads = _HEAD.iter_unpack(memoryview(reply)[_REPLY.size : heads_end])
    for (query, topk, scores), (crc, state, length) in zip(items, heads, strict=True):
        if crc != _checksum(query, topk, scores) or state >= len(_STATES):
            raise CrossedError("it answers another query")
        answers.append((_STATES[state], reply[start : start + length]))
        start += length
    if start != len(reply):
        raise CrossedError("it is not as long as it says")
    return answers
