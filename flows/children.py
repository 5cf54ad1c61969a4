"""Commands that are run one after the other, each with the time to end what it does when all are told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

from flows.environment import OWN_PORT


class Stop:
    """What stops a row of commands: it stops the one that is running, and no other is started."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.running: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signals' handler."""
        self.number = number
        self.pass_on()

    def pass_on(self) -> None:
        """Tell the command, if it is still running; Ctrl-C has reached it as well, and is not repeated."""
        if self.number == signal.SIGTERM and self.running is not None:
            self.running.terminate()  # does nothing once it has ended


def run(command: Sequence[str], stop: Stop, environment: Mapping[str, str]) -> int:
    """Run a module as a command of its own, unless told to stop; returns the exit code.

    Args:
        command: the module, and its arguments.
        stop: the signals' handler.
        environment: variables beside this process's own.
    """
    if stop.number is None:
        variables = {**os.environ, **environment}
        if OWN_PORT is not None:
            # The address that this process keeps for a server of its own, which it never starts.
            del variables["PREFECT_API_URL"]
        stop.running = subprocess.Popen([sys.executable, "-m", *command], env=variables)
        stop.pass_on()  # a signal that came while it was started
        code = stop.running.wait()  # however it ends: it must have the time to end its stage
        if stop.number is None:
            return code
    return 128 + stop.number
