import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest


class Server:
    """A retrieval server as a child process, and what is asked of it."""

    def __init__(self, child: Any) -> None:
        self._child, self.process = child, child.process
        self.family, self.end = child.family, child.end

    def ready(self) -> "Server":
        """Wait for the line with the address."""
        self._child.ready()
        return self

    @property
    def address(self) -> str:
        return self._child.address

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

    def nursery(self) -> psutil.Process:
        (nursery,) = psutil.Process(self.process.pid).children()
        return nursery

    def workers(self) -> list[psutil.Process]:
        return self.nursery().children()

    def whole(self, seconds: float = 60) -> None:
        """Wait until every worker is there."""
        deadline = time.monotonic() + seconds
        while self.get("/ready").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def serve(index: Path, start_server: Any) -> Callable[..., contextlib.AbstractContextManager[Server]]:
    """Starts a retrieval server over the common index for a with-block."""

    @contextlib.contextmanager
    def started(*arguments: str) -> Iterator[Server]:
        with start_server("tasks.retrieval_server", "--index", str(index), *arguments) as child:
            yield Server(child)

    return started


@pytest.fixture(scope="module")
def server(serve: Any) -> Iterator[Server]:
    """One that a file's tests share: two workers, no cache."""
    with serve("--workers", "2", "--seconds", "20", "--cache", "0") as started:
        yield started.ready()
