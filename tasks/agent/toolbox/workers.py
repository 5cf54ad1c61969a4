"""Workers of the tool server: what one is, and two of the three kinds, threads and processes.

| kind    | a tool that hangs, raises, floods | that holds the GIL              | that ends its process              |
| thread  | fails by itself                   | holds the server until it lets go | ends the server                  |
| process | fails by itself                   | its worker is started anew      | its worker is started anew         |
| ray     | fails by itself                   | its actor is started anew       | its actor is started anew          |
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from functools import partial
from typing import Any
from typing import Protocol as Interface

from tasks.agent.toolbox.bounded import bounded
from tasks.agent.toolbox.spec import Answering, Spec, UnaskedError, WorkerLostError
from tasks.errors import InputError

OPENING = 300.0  # seconds to open the tools: an index may be large
LENGTH = struct.Struct("!I")  # bytes of the JSON text that follows
MOST_BYTES = 1 << 28  # of a message; 4 results of 65,536 characters take 1.6 MB at most


class Worker(Interface):
    """Something that holds one toolbox."""

    async def open(self) -> list[dict[str, Any]]:
        """Start it; returns its tools as `wire.describe` does, once all are open.

        Raises:
            InputError: a tool is unknown or cannot be opened.
            WorkerLostError: it died on the way.
        """
        ...

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message of `spec.Answering.answer` and await the answer.

        Raises:
            WorkerLostError: the worker has died.
            UnaskedError: it had died before, and has got no message.
        """
        ...

    async def kill(self) -> None:
        """End it, whatever it does; what waits for an answer gets a `WorkerLostError`."""
        ...


class ThreadWorker:
    """A toolbox in the server's own process; see `Worker`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    async def open(self) -> list[dict[str, Any]]:
        self._answering = await bounded(partial(Answering, self._spec), OPENING)
        return self._answering.tools

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = await self._answering.answer(message)
        return {key: value for key, value in answer.items() if key != "hung"}  # a new toolbox would end no thread

    async def kill(self) -> None:
        """Nothing: it ends with the server."""


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any]:
    """One message off a stream: its length, and its JSON text.

    Raises:
        WorkerLostError: the stream has ended, or holds something else.
    """
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > MOST_BYTES:
            raise WorkerLostError(f"a message of {length:,} bytes")
        message = json.loads(await reader.readexactly(length))
    except asyncio.IncompleteReadError as error:
        raise WorkerLostError("its process has ended") from error
    except (OSError, ValueError, RecursionError) as error:
        raise WorkerLostError(str(error)) from error
    if not isinstance(message, dict):
        raise WorkerLostError("a message that is no object")
    return message


def write_message(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """Put one message on a stream."""
    text = json.dumps(message).encode()
    writer.write(LENGTH.pack(len(text)) + text)


class ProcessWorker:
    """A toolbox in a process of its own (`process_worker.py`), in a session of its own; see `Worker`.

    They talk over a pair of sockets, in JSON: what a tool returns is never unpickled here. Another pair, between the
    server and the keeper, tells each of the other's end.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[str] | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._asked = 0
        self._lost: str | None = None

    async def open(self) -> list[dict[str, Any]]:
        ours, theirs = socket.socketpair()
        life, keepers = socket.socketpair()
        with theirs, keepers:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tasks.agent.toolbox.process_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=keepers.fileno(),
                stdout=sys.stderr,  # the server's own output is one line, with its address
                start_new_session=True,  # so that what a tool has started ends with its worker
            )
        watched, living = await asyncio.open_connection(sock=life)
        reader, writer = await asyncio.open_connection(sock=ours)
        self._writers = [writer, living]
        self._watching = asyncio.create_task(self._watch(watched, ours))
        write_message(writer, self._spec.dump())
        opening = ""
        try:
            while "opening" in (opened := await read_message(reader)):
                opening = f"tool {opened['opening']!r}: "
        except WorkerLostError as error:
            status = "unknown"
            with contextlib.suppress(TimeoutError):  # it lives, and a tool has closed its socket
                status = await asyncio.wait_for(self._watching, 5.0) or status  # seconds
            self._lose(f"{opening}the process ended with status {status} before it was open")
            raise WorkerLostError(self._lost) from error
        if "error" in opened:
            self._lose("a tool cannot be opened")
            raise InputError(str(opened["error"]))
        self._reading = asyncio.create_task(self._read(reader))
        return list(opened["tools"])

    async def _watch(self, life: asyncio.StreamReader, messages: socket.socket) -> str:
        """Wait for the end of the worker's process; its exit code, negative for a signal, where the keeper could tell.

        The end of its messages says less: a process that a tool has started may hold that socket as well.
        """
        try:
            status = (await life.read()).decode()
        except OSError:
            status = ""
        with contextlib.suppress(OSError):  # it has been closed
            messages.shutdown(socket.SHUT_RD)  # what it had sent is still read
        return status

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                answer = await read_message(reader)
                future = self._waiting.pop(answer.pop("number", -1), None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except WorkerLostError as error:
            self._lose(str(error))

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerLostError(self._lost))
        self._waiting.clear()

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._lost is not None or self._reading is None:
            raise UnaskedError(self._lost or "not open")
        self._asked += 1
        number = self._asked
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            write_message(self._writers[0], {**message, "number": number})
            return await future
        finally:
            self._waiting.pop(number, None)

    async def kill(self) -> None:
        self._lose("killed")
        process = self._process
        if process is None or process.returncode is not None:
            return
        # Also where it has died: its children have its group, whose number is no other's until it is waited for.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        for task in filter(None, (self._reading, self._watching)):
            task.cancel()
        for writer in self._writers:
            writer.close()
