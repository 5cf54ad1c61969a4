"""A circuit breaker for many threads: what fails again and again is left alone for a moment, then tried by one."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pybreaker import STATE_CLOSED, STATE_OPEN, CircuitBreaker, CircuitBreakerError, CircuitBreakerListener

log = logging.getLogger("forager.retrieval")

FAILURES = 5  # in a row, until nobody may pass ...
PAUSE = 3.0  # ... for so many seconds; then one tries


class BreakerOpenError(Exception):
    """Nobody may pass now."""


class Breaker:
    """pybreaker's, without its queue: there one call waits for the other.

    Args:
        name: for the log.
        well: whether whoever raised this is well all the same.
        on_open: called whenever it starts to refuse.
    """

    def __init__(self, name: str, well: Callable[[BaseException], bool], on_open: Callable[[], object]) -> None:
        self._breaker = CircuitBreaker(
            fail_max=FAILURES,
            reset_timeout=PAUSE,
            exclude=[well],
            listeners=[_Listener(name, on_open)],
            throw_new_error_on_trip=False,
        )
        self._trying = threading.Lock()  # held by the one that tries

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Pass, and tell by what is raised inside how it went.

        Raises:
            BreakerOpenError: nobody may pass, or somebody else is trying.
        """
        tries = self._breaker.current_state != STATE_CLOSED
        if tries and not self._trying.acquire(blocking=False):
            raise BreakerOpenError
        try:
            # Not `call`, which holds the breaker's lock for as long as the call takes.
            with self._breaker.calling():
                yield
        except CircuitBreakerError:
            raise BreakerOpenError from None
        finally:
            if tries:
                self._trying.release()


class _Listener(CircuitBreakerListener):
    def __init__(self, name: str, on_open: Callable[[], object]) -> None:
        self._name, self._on_open = name, on_open

    def state_change(self, cb: CircuitBreaker, old_state: Any, new_state: Any) -> None:
        # A call that was let pass before fails afterwards: the breaker is told to open once more.
        if new_state.name == STATE_OPEN and old_state.name != STATE_OPEN:
            self._on_open()
            log.warning("%s has failed %d times in a row: it is left alone for %g s", self._name, FAILURES, PAUSE)
        elif new_state.name == STATE_CLOSED:
            log.warning("%s answers again", self._name)
