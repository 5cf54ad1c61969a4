"""Lines of progress: how much, how fast, how long still."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = 3.0  # between lines


class Progress:
    """Says at most every few seconds how work on the passages goes on.

    Args:
        what: is being done.
        total: passages altogether.
        say: takes the lines.
    """

    def __init__(self, what: str, total: int, say: Callable[[str], None]) -> None:
        self._what, self._total, self._say = what, total, say
        self._begun = self._said = time.monotonic()
        self._made = 0

    def step(self, made: int, upto: int) -> None:
        """Some passages more are done.

        Args:
            made: how many; those that an earlier run has left count for no rate.
            upto: how far that is.
        """
        self._made += made
        now = time.monotonic()
        if now - self._said >= _SECONDS and upto < self._total:
            rate = self._made / (now - self._begun)
            left = (self._total - upto) / rate
            self._say(f"{self._what}: {upto:,} of {self._total:,} passages, {rate:,.0f}/s, {left:,.0f} s left")
            self._said = now
