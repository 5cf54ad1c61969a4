import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tasks.processes import end_with_parent

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent


class Server:
    """A tool server as a child process."""

    def __init__(self, *arguments: str, tools: str = "misbehave", **environment: str) -> None:
        path = os.pathsep.join([str(HERE), str(ROOT)])
        command = ["-m", "tasks.tool_server", "--import", "misbehaving", "--tools", *tools.split(), "--seconds", "1"]
        self.process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "RAY_ADDRESS": "local", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Whoever kills the tests ends their servers.
            preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
        )
        self.address = ""

    def ready(self) -> "Server":
        """Wait for the line with the address."""
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.end()
        return self

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, said = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said


@pytest.fixture(scope="session")
def serve() -> Callable[..., contextlib.AbstractContextManager[Server]]:
    """Starts a tool server for a with-block."""

    @contextlib.contextmanager
    def started(*arguments: str, **more: str) -> Iterator[Server]:
        server = Server(*arguments, **more)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.end()

    return started
