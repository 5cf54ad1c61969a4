import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.agent.protocols import Call
from tasks.agent.toolbox import Result
from tasks.agent.toolbox.client import ToolClient

PATH = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[3])])


@pytest.fixture(scope="session")
def serve(start_server: Any) -> Callable[..., contextlib.AbstractContextManager[Any]]:
    """Starts a tool server for a with-block; it offers tools of misbehaving.py."""

    def started(
        *arguments: str, tools: str = "misbehave", **environment: str
    ) -> contextlib.AbstractContextManager[Any]:
        command = ["--import", "misbehaving", "--tools", *tools.split(), "--seconds", "1", *arguments]
        return start_server("tasks.tool_server", *command, PYTHONPATH=PATH, RAY_ADDRESS="local", **environment)

    return started


def _ask(client: ToolClient, *texts: str, trajectory: str = "one") -> list[Result]:
    return asyncio.run(client.call(trajectory, [Call("misbehave", text) for text in texts]))


@pytest.fixture(scope="session")
def ask() -> Callable[..., list[Result]]:
    """The results of a turn's calls."""
    return _ask


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Result]:
    """A call that goes well, as soon as a lost worker's successor is there."""

    def wait(client: ToolClient, trajectory: str = "one") -> Result:
        deadline = time.monotonic() + 60
        while True:
            (result,) = _ask(client, "fine", trajectory=trajectory)
            if result.failure is None:
                return result
            assert time.monotonic() < deadline

    return wait


@pytest.fixture(scope="session")
def post_and_leave() -> Callable[[str, str, str], None]:
    """A call whose end nobody waits for."""

    def post(address: str, trajectory: str, text: str) -> None:
        body = {"trajectory_ids": [trajectory], "actions": [f"<misbehave>{text}</misbehave>"], "finish": [False]}
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{address}/get_observation", json=body, timeout=0.3)

    return post
