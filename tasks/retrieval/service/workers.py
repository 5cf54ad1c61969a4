"""Workers of the retrieval service: what one is, and its two kinds, a forked process and a thread."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from typing import Protocol as Interface

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.service.nursery import FORK, READY
from tasks.retrieval.service.searching import Opened, Searcher, Spec
from tasks.retrieval.service.wire import LENGTH, MOST_BYTES, Answer, CrossedError, Item, dump_batch, group, load_reply

FORKING = 2.0  # seconds for the nursery to fork; it has imported everything by then


class WorkerLostError(RuntimeError):
    """A worker has died, is hung, could not be started, or says what no worker says."""


class Worker(Interface):
    """Something that has the index open; it is asked one batch at a time."""

    async def open(self) -> Opened:
        """Start it.

        Raises:
            InputError: the index cannot be opened.
            WorkerLostError: it died on the way, or what it needs elsewhere does not answer.
        """
        ...

    async def search(self, items: Sequence[Item]) -> list[Answer]:
        """An answer for each query, in their order.

        Raises:
            WorkerLostError: it has died, or its reply is not to this batch.
        """
        ...

    async def kill(self) -> None:
        """End it, whatever it does."""
        ...


class ThreadWorker:
    """The index in this very process, searched by a thread; see `Worker`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._thread = ThreadPoolExecutor(1, "retrieval")

    async def open(self) -> Opened:
        try:
            self._searcher = await asyncio.get_running_loop().run_in_executor(self._thread, Searcher, self._spec)
        except UnavailableError as error:
            raise WorkerLostError(str(error)) from error
        return self._searcher.opened

    async def search(self, items: Sequence[Item]) -> list[Answer]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._searcher.answer, group(items))

    async def kill(self) -> None:
        """Let it go: a thread that hangs ends with its process alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Nursery:
    """The process that forks the workers; started anew where it is lost, and its workers with it.

    Args:
        modules: what it imports first.
        environment: of the nursery and the workers.
        seconds: in which it must have done so.
    """

    def __init__(self, modules: Sequence[str], environment: dict[str, str], seconds: float) -> None:
        self._modules, self._environment, self._seconds = list(modules), environment, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    async def fork(self, connection: socket.socket) -> int:
        """A worker at the other end of a socket; a descriptor of its process (pidfd_open(2)).

        Raises:
            WorkerLostError: there is none.
        """
        async with self._turn:
            try:
                if self._process is None:
                    await self._start()
                async with asyncio.timeout(FORKING):
                    socket.send_fds(self._control, [FORK], [connection.fileno()])
                    await _readable(self._control)
                    message, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
                if not message:
                    raise OSError("it has ended")
                if not descriptors:  # the kernel drops what this process has no number for
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            except (OSError, TimeoutError) as error:
                self.close()
                raise WorkerLostError(f"no worker was forked: {str(error) or 'no answer'}") from error
            except asyncio.CancelledError:
                self.close()  # its answer would be taken for that to the next
                raise
            return descriptors[0]

    async def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            # Started by the loop's own thread, the one whose end would end the nursery.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tasks.retrieval.service.nursery", str(theirs.fileno()), *self._modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # the server's own output is one line, with its address
                env=self._environment,
                start_new_session=True,  # an interrupt of the terminal is the server's to handle
            )
        self._control.setblocking(False)
        async with asyncio.timeout(self._seconds):
            await _readable(self._control)
            if self._control.recv(1) != READY:
                raise OSError("what the retriever needs could not be imported")

    def close(self) -> None:
        """End it and all workers that it has forked."""
        if self._process is not None:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._process = None


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


class ProcessWorker:
    """The index in a process of its own (`process_worker.py`); see `Worker`."""

    def __init__(self, spec: Spec, nursery: Nursery) -> None:
        self._spec, self._nursery = spec, nursery
        self._process: int | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._asked = 0

    async def open(self) -> Opened:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:  # too many files are open, as where many clients came
            raise WorkerLostError(f"no socket for a worker: {error}") from error
        try:
            with theirs:
                self._process = await self._nursery.fork(theirs)
            # The limit holds a whole reply of common size, so that reading is not paused in the midst of it.
            self._streams = await asyncio.open_connection(sock=ours, limit=1 << 22)
        except BaseException:
            ours.close()
            raise
        text = self._spec.dump().encode()
        self._streams[1].write(LENGTH.pack(len(text)) + text)
        said: dict[str, Any] = json.loads(await self._read())
        if "input" in said:
            raise InputError(said["input"])
        if "unavailable" in said:
            raise WorkerLostError(said["unavailable"])
        return Opened(**said)

    async def search(self, items: Sequence[Item]) -> list[Answer]:
        assert self._streams is not None  # open
        self._asked += 1
        self._streams[1].write(dump_batch(self._asked, items))
        reply = await self._read()
        try:
            return load_reply(reply, self._asked, items)
        except CrossedError as error:
            raise WorkerLostError(str(error)) from error

    async def _read(self) -> bytes:
        assert self._streams is not None
        reader = self._streams[0]
        try:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > MOST_BYTES:
                raise WorkerLostError(f"a reply of {length:,} bytes")
            return await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise WorkerLostError("its process has ended") from error

    async def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.close(self._process)
            self._process = None
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
