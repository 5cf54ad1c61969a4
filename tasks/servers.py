"""What this project's servers share: a socket to listen at, an end with the parent, a child that says its address."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

import psutil

from tasks.errors import InputError
from tasks.processes import PATIENCE, end_processes

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
        RuntimeError: it ended before it was ready.
    """
    # A session of its own: whoever interrupts the stage leaves the server to it.
    server = subprocess.Popen(
        [sys.executable, "-m", module, "--stage"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _address(server, settings, seconds, name, key)
    finally:
        _end(server)


def _address(server: subprocess.Popen[str], settings: str, seconds: float, name: str, key: str) -> str:
    assert server.stdin is not None and server.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: what it said is read below
        server.stdin.write(f"{settings}\n")
        server.stdin.flush()
    said, _, _ = select.select([server.stdout], [], [], seconds)
    if not said:
        raise InputError(f"the {name} was not ready after {seconds:.0f} s", where=key)
    line = server.stdout.readline().strip()
    if line.startswith("http://"):
        return line
    if line.startswith("error: "):
        raise InputError(line.removeprefix("error: "), where=name)
    raise RuntimeError(f"the {name} ended with status {server.wait(PATIENCE)} before it was ready")


def _end(server: subprocess.Popen[str]) -> None:
    """End the server and what it has started; it ends by itself once its standard input is closed."""
    family = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    try:
        server.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    end_processes([member for member in family if member.is_running()])
