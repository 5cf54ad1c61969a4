"""Calls to other machines from any thread: one event loop for this process, a deadline that holds whatever they do.

A blocking client can only limit each single read, so a server that sends a byte now and then holds it for ever; a
coroutine is cancelled at its deadline, and its connection is closed.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_GRACE = 2.0  # seconds for the loop itself, which nothing should hold up


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="retrieval calls").start()
    return loop


# A fork has the loop, and not the thread that runs it.
os.register_at_fork(after_in_child=_loop.cache_clear)
_starting = threading.Lock()


def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What a coroutine returns or raises, for a thread that waits; all of a process run in one event loop.

    Raises:
        TimeoutError: it took longer than `seconds`, and is cancelled.
    """
    with _starting:
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), loop).result(max(seconds, 0) + _GRACE)
