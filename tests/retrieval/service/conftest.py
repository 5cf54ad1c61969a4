import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tasks.processes import end_with_parent

ROOT = Path(__file__).parents[3]


class Server:
    """A retrieval server as a child process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tasks.retrieval_server", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
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

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def ask(self, *queries: str, timeout: float = 30, headers: dict | None = None, **more: object) -> httpx.Response:
        body = {"queries": list(queries), **more}
        return httpx.post(f"{self.address}/retrieve", json=body, headers=headers, timeout=timeout)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.address}{path}", timeout=30)

    def metric(self, name: str) -> float:
        (line,) = [line for line in self.get("/metrics").text.splitlines() if line.startswith(f"forager_{name} ")]
        return float(line.split()[-1])

    def family(self) -> list[psutil.Process]:
        """The nursery and the workers."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def workers(self) -> list[psutil.Process]:
        (nursery,) = psutil.Process(self.process.pid).children()
        return nursery.children()

    def whole(self, seconds: float = 60) -> None:
        """Wait until every worker is there."""
        deadline = time.monotonic() + seconds
        while self.get("/ready").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)

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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def serve(index: Path) -> Callable[..., contextlib.AbstractContextManager[Server]]:
    """Starts a retrieval server over the common index for a with-block."""

    @contextlib.contextmanager
    def started(*arguments: str) -> Iterator[Server]:
        server = Server("--index", str(index), *arguments)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.end()

    return started
