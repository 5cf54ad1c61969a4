"""The tool server that a stage's episodes use: none, one of the stage's own, or somebody's."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tasks.agent.toolbox.client import offered_tools
from tasks.agent.toolbox.spec import Settings
from tasks.agent.toolbox.workers import OPENING
from tasks.errors import InputError
from tasks.params import Episode, Retrieval, Tools
from tasks.processes import PATIENCE, end_processes

START = OPENING + 60.0  # seconds from the command to a server that is ready


@contextlib.contextmanager
def serving(
    tools: Tools, *, episode: Episode, retrieval: Retrieval, index: Path | None, say: Callable[[str], None]
) -> Iterator[Tools]:
    """See to it that the tool server is ready before anything is played.

    With `tools.server: start` one is started at a free port of this machine, as a child that carries the workspace's
    mark, and ended at the end.

    Args:
        tools: the section of that name, as are the next two.
        index: folder of the retrieval index; None where the environment needs none.
        say: takes a line of progress.

    Yields:
        the section `tools`, its `server` an address or null.

    Raises:
        InputError: a tool is unknown or cannot be opened, the server is not ready, or it did not start in time.
    """
    if tools.server is None:
        yield tools
    elif tools.server != "start":
        offered_tools(tools.server.rstrip("/"))
        yield tools
    else:
        settings = Settings.of(tools, episode, retrieval, index)
        with _started(settings) as address:
            say(f"tool server at {address}: {', '.join(tools.names)}")
            yield tools.model_copy(update={"server": address})


@contextlib.contextmanager
def _started(settings: Settings) -> Iterator[str]:
    """A server as a child; its address."""
    # A session of its own: whoever interrupts the stage leaves the server to it.
    server = subprocess.Popen(
        [sys.executable, "-m", "tasks.agent.toolbox.command", "--stage"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _address(server, settings)
    finally:
        _end(server)


def _address(server: subprocess.Popen[str], settings: Settings) -> str:
    assert server.stdin is not None and server.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: what it said is read below
        server.stdin.write(settings.dump() + "\n")
        server.stdin.flush()
    said, _, _ = select.select([server.stdout], [], [], START)
    if not said:
        raise InputError(f"the tool server was not ready after {START:.0f} s", where="tools.server")
    line = server.stdout.readline().strip()
    if line.startswith("http://"):
        return line
    if line.startswith("error: "):
        raise InputError(line.removeprefix("error: "), where="tool server")
    raise RuntimeError(f"the tool server ended with status {server.wait(PATIENCE)} before it was ready")


def _end(server: subprocess.Popen[str]) -> None:
    """End the server and what it has started; it ends by itself once its standard input is closed."""
    family = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    try:
        server.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    end_processes([member for member in family if member.is_running()])
