"""A process that answers one JSON line with another: what a contender, and the load, are to the benchmark."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE = 60.0


class Child:
    """A child of this process, `python -m MODULE ARGUMENTS`.

    Args:
        module: the command.
        arguments: of the command.
    """

    def __init__(self, module: str, arguments: Sequence[str] = ()) -> None:
        self._name = " ".join([module, *arguments])
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a line and take the answer, which may take so many seconds.

        Raises:
            RuntimeError: the child has ended, or does not answer in time.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(message)}\n")
        self._process.stdin.flush()
        return self.take(seconds)

    def take(self, seconds: float) -> dict[str, Any]:
        """The child's next line.

        Raises:
            RuntimeError: the child has ended, or says nothing in time.
        """
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise RuntimeError(f"{self._name} says nothing after {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended with status {self._process.wait(PATIENCE)}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the child: by the end of its input, else by force."""
        try:
            self._process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def answer(handle: Callable[[dict[str, Any]], dict[str, Any]], first: dict[str, Any]) -> None:
    """In the child: say `first`, then answer each line of the standard input until it ends."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(message: dict[str, Any]) -> None:
        own.write(f"{json.dumps(message)}\n")
        own.flush()

    say(first)
    for line in sys.stdin:
        say(handle(json.loads(line)))
