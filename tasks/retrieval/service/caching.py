"""Answers that are remembered: a cache of so many bytes, the least recently used go first.

cachetools' LRUCache keeps three mappings and a tuple for every entry: a third of the front's time, and with 100,000
entries objects enough for full garbage collections to hold all requests up for 100 ms. Here keys and values are
strings and bytes, which collections do not look into.
"""

from __future__ import annotations

import sys
from collections import OrderedDict

from tasks.retrieval.service.wire import Item

ENTRY = 1024  # bytes that an entry takes beside its key and its content, about


class Cache:
    """Contents by query, number of passages and form.

    Args:
        size: bytes that all entries may take.
    """

    def __init__(self, size: int) -> None:
        self._left, self._contents = size, OrderedDict[str, bytes]()

    def get(self, item: Item) -> bytes | None:
        """The content of an item, which is now the one that was used last; None where there is none."""
        key = _key(item)
        content = self._contents.get(key)
        if content is not None:
            self._contents.move_to_end(key)
        return content

    def put(self, item: Item, content: bytes) -> None:
        """Keep a content, at the cost of those that were used least recently."""
        key = _key(item)
        former = self._contents.pop(key, None)
        if former is not None:
            self._left += _bytes(key, former)
        self._left -= _bytes(key, content)
        self._contents[key] = content
        while self._left < 0:
            self._left += _bytes(*self._contents.popitem(last=False))


def _key(item: Item) -> str:
    query, topk, scores = item
    return f"{topk} {scores} {query}"


def _bytes(key: str, content: bytes) -> int:
    return ENTRY + sys.getsizeof(key) + len(content)  # a query may be longer than what it finds
