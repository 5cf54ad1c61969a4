"""Tries of one search: what may succeed the next time is tried again, at growing random intervals, within its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from tasks.errors import UnavailableError

T = TypeVar("T")
Kind = Literal["connection", "timeout", "busy", "refused", "nonsense", "open"]

# Full jitter: clients that have failed together do not come back together.
_jitter = wait_random_exponential(multiplier=0.05, max=1.0)


class SearchFailedError(UnavailableError):
    """A search, or one try of it, has failed.

    Attributes:
        kind: no connection, or a broken one; the time was up; 502, 503 or 504; any other status of 4xx; an answer that
            is none; not asked at all.
        again: whether another try may succeed.
        after: seconds that the server wants to be left alone before.
    """

    def __init__(self, kind: Kind, why: str, *, again: bool = False, after: float = 0.0) -> None:
        super().__init__(why)
        self.kind, self.again, self.after = kind, again, after


class Tries:
    """For searches of many threads.

    Args:
        seconds: no try begins later.
        on_again: called before every try but the first.
    """

    def __init__(self, seconds: float, on_again: Callable[[], None]) -> None:
        self._again = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, SearchFailedError) and error.again),
            wait=_wait,
            stop=stop_before_delay(seconds),
            before_sleep=lambda state: on_again(),
            reraise=True,
        )

    def __call__(self, one: Callable[[], T]) -> T:
        """What the first try returns that does not fail.

        Raises:
            SearchFailedError: all have failed. It is the last one's, or the one's before that where the last has only
                run out of time: how much it had left is chance, and why there had to be another is not.
        """
        before: SearchFailedError | None = None

        def noted() -> T:
            nonlocal before
            try:
                return one()
            except SearchFailedError as error:
                if error.again:
                    before = error
                raise

        try:
            return self._again(noted)
        except SearchFailedError as error:
            if error.kind == "timeout" and before is not None:
                raise before from error
            raise


def _wait(state: RetryCallState) -> float:
    """Seconds until the next try; where the server has said how long, that and no less."""
    error = state.outcome.exception() if state.outcome is not None else None
    return _jitter(state) + (error.after if isinstance(error, SearchFailedError) else 0.0)
