"""Answers that are remembered: a cache of so many bytes, the least recently used go first.

cachetools' LRUCache keeps three mappings and a tuple for every entry: a third of the front's time, and with 100,000
entries objects enough for full garbage collections to hold all requests up for 100 ms. Here keys and values are
strings and bytes, which collections do not look into.
"""

from __future__ import annotations

from collections import OrderedDict

from tasks.retrieval.service.wire import Item

ENTRY = 1024  # bytes that an entry takes beside its content, about


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
            self._left += ENTRY + len(former)
        self._left -= ENTRY + len(content)
        self._contents[key] = content
        while self._left < 0:
            _, oldest = self._contents.popitem(last=False)
            self._left += ENTRY + len(oldest)


def _key(item: Item) -> str:
    query, topk, scores = item
    return f"{topk} {scores} {query}"
