"""One flow at a time in a workspace, and nothing left of an earlier one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tasks import processes
from tasks.errors import InputError

LOCK = Path(".forager/flow.lock")
HELPER_MARK = "FORAGER_FLOW"  # carried by what the flow itself starts (Prefect's short-lived server)

_held = 0


@contextlib.contextmanager
def claim() -> Iterator[None]:
    """Hold the workspace for this process; the kernel lets go of it however the process ends.

    Raises:
        InputError: another process holds it.
    """
    global _held
    if _held:
        _held += 1
        try:
            yield
        finally:
            _held -= 1
        return
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InputError(
                f"another train-and-eval runs in this folder ({lock.read().strip()})",
                mend="wait for it or stop it; another clone can run at the same time",
            ) from None
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}, since {time.strftime('%H:%M:%S')}\n")
        lock.flush()
        _held += 1
        try:
            yield
        finally:
            _held -= 1


def end_leftovers() -> int:
    """End what killed flows and stages of this workspace left behind; returns how many processes there were."""
    ended = processes.end_leftovers() + processes.end_leftovers(mark=HELPER_MARK)
    # What this process starts from now on is a flow's helper; stages get the stages' mark besides.
    os.environ[HELPER_MARK] = str(Path.cwd())
    return ended
