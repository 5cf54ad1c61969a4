"""Other people's code under a time-out: in a thread of its own, given up when it hangs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
THREAD = "bounded"  # name of every such thread


class UncarriedError(RuntimeError):
    """Bounded work has raised what no future can carry: SystemExit, which would end the loop, or StopIteration."""


async def bounded(work: Callable[[], T], seconds: float, context: contextvars.Context | None = None) -> T:
    """Run `work` in a thread of its own.

    A thread cannot be ended: one whose work hangs is left behind, and ends with the process.

    Args:
        work: blocks, hangs or raises as it likes.
        seconds: how long it is waited for.
        context: what it runs in; the caller's, by default.

    Raises:
        TimeoutError: it took too long.
        Exception: what `work` raised; `UncarriedError` where that is SystemExit or the like.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context() if context is None else context

    def run() -> None:
        try:
            value = context.run(work)
        except BaseException as error:
            _tell(loop, _settle, future, None, error)
        else:
            _tell(loop, _settle, future, value, None)

    threading.Thread(target=run, daemon=True, name=THREAD).start()
    # Not wait_for, which loses a cancellation that comes as the work ends (Python 3.11): an episode's deadline.
    async with asyncio.timeout(seconds):
        return await future


def _tell(loop: asyncio.AbstractEventLoop, *what: Any) -> None:
    if not loop.is_closed():  # else nobody waits any more
        loop.call_soon_threadsafe(*what)


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        carried = isinstance(error, Exception) and not isinstance(error, StopIteration)
        future.set_exception(error if carried else UncarriedError(repr(error)))
