import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
