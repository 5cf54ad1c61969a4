"""What this project's servers share: a socket to listen at, an end with the parent, a child that says its address."""

from __future__ import annotations

import argparse
import contextlib
import errno
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TextIO, TypeVar

import psutil

from tasks.errors import CrashError, InputError, exit_on_input_error
from tasks.processes import PATIENCE, end_processes

Settings = TypeVar("Settings")

LAST_LINES = 3  # of a server that has crashed, in the error: a traceback's end
_PORT_REFUSED = (errno.EADDRINUSE, errno.EACCES)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: a name or an address.
        port: 0: a free one.

    Raises:
        InputError: nobody can listen there.
    """
    if not host:
        raise InputError("must be a name or an address: an empty one would be every address", where="--host")
    if not 0 <= port < 1 << 16:
        raise InputError(f"must be 0 to 65535, not {port}", where="--port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:  # a name of the wrong form is not even looked up
        where = "--port" if isinstance(error, OSError) and error.errno in _PORT_REFUSED else "--host"
        why = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
        raise InputError(f"cannot listen at {host}, port {port}: {why}", where=where) from error
    # asyncio sets this for sockets it makes itself; without it each reply waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """`http://HOST:PORT` of a socket that listens."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def end_with_input() -> None:
    """End this process when whoever holds the other end of its standard input has ended, however that came."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent").start()


def take_output() -> TextIO:
    """The standard output, for the server's own line alone: what is printed from now on goes where logs go."""
    own = os.fdopen(os.dup(1), "w")
    sys.stdout.flush()
    os.dup2(2, 1)
    return own


def command_parser(command: str, description: str) -> argparse.ArgumentParser:
    """A parser of what every server's command takes: where to listen, and `--stage` where a stage starts it."""
    parser = argparse.ArgumentParser(command, description=description)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=0, help="0: a free one (default)")
    parser.add_argument("--stage", action="store_true", help=argparse.SUPPRESS)
    return parser


@dataclass(frozen=True)
class Serving(Generic[Settings]):
    """A server's command at work.

    Attributes:
        settings: what it serves.
        listening: its socket.
        announce: says the server's one line, its address, once it is ready.
    """

    settings: Settings
    listening: socket.socket
    announce: Callable[[str], None]


@contextlib.contextmanager
def commanded(
    name: str,
    given: argparse.Namespace,
    *,
    load: Callable[[str], Settings],
    settings: Callable[[argparse.Namespace], Settings],
) -> Iterator[Serving[Settings]]:
    """What a server's command needs before it can serve; where it cannot, it ends with code 2 and one line.

    Args:
        name: of the command, in errors.
        given: what `command_parser` has read.
        load: reads the settings out of the line that a stage sends, see `started`.
        settings: finds them by what the command line says.
    """
    output = take_output()
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")

    def announce(line: str) -> None:
        with output:  # whoever reads it sees its end
            print(line, file=output)

    with exit_on_input_error(name):
        try:
            if given.stage:
                found = load(sys.stdin.readline())
                end_with_input()
            else:
                found = settings(given)
            with listen(given.host, given.port) as listening:
                yield Serving(found, listening, announce)
        except InputError as error:
            if given.stage and not output.closed:
                announce(f"error: {error}")
            raise


def end_by_signal(server: Any) -> Callable[[], None]:
    """Have SIGTERM and SIGINT end a `uvicorn.Server`; returns what ends it at any other time."""

    def end(*_: Any) -> None:
        server.should_exit = True

    # uvicorn sets its own handlers while it serves, and raises the signal once more for these when it has ended.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return end


@contextlib.contextmanager
def started(module: str, settings: str, *, seconds: float, name: str, key: str) -> Iterator[str]:
    """A server as a child in a session of its own; its address.

    The child is `python -m MODULE --stage`. It gets `settings` as the first line of its standard input, ends when that
    ends, and says one line when it is ready: `http://...`, or `error: ...` where the input is wrong.

    Args:
        module: the command.
        settings: one line.
        seconds: from the command to a server that is ready.
        name: what the server is called in errors.
        key: of the parameters, that asks for it.

    Raises:
        InputError: it has found something wrong, or was not ready in time.
        CrashError: it ended before it was ready.
    """
    server = _Child(module)
    try:
        yield server.address(settings, seconds, name, key)
    finally:
        server.end()


class _Child:
    """A server's process; what it says goes where this process's errors go, and its last lines are kept."""

    def __init__(self, module: str) -> None:
        # A session of its own: whoever interrupts the stage leaves the server to it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--stage"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._last = deque[str](maxlen=LAST_LINES)
        self._showing = threading.Thread(target=self._show, daemon=True, name="server's output")
        self._showing.start()

    def address(self, settings: str, seconds: float, name: str, key: str) -> str:
        """See `started`."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: what it said is read below
            process.stdin.write(f"{settings}\n")
            process.stdin.flush()
        said, _, _ = select.select([process.stdout], [], [], seconds)
        if not said:
            raise InputError(f"the {name} was not ready after {seconds:.0f} s", where=key)
        line = process.stdout.readline().strip()
        if line.startswith("http://"):
            return line
        if line.startswith("error: "):
            raise InputError(line.removeprefix("error: "), where=name)
        status = process.wait(PATIENCE)
        self._showing.join(PATIENCE)
        last = f"its last lines: {' | '.join(self._last)}" if self._last else "it said nothing"
        raise CrashError(f"the {name} ended with status {status} before it was ready; {last}")

    def end(self) -> None:
        """End it and what it has started; it ends by itself once its standard input is closed."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        with contextlib.suppress(BrokenPipeError):  # it has ended without reading what it was sent
            process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        end_processes([member for member in family if member.is_running()])
        self._showing.join(PATIENCE)

    def _show(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as said:
            for line in said:
                sys.stderr.write(line)
                sys.stderr.flush()
                if line.strip():
                    self._last.append(line.strip())
