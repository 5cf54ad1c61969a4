"""What a worker's socket may bring: the other end is a thread that says what no worker says."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tasks.errors import InputError
from tasks.retrieval.service.process_worker import _read, _say
from tasks.retrieval.service.searching import Opened, Spec
from tasks.retrieval.service.wire import LENGTH, dump_reply, load_batch
from tasks.retrieval.service.workers import Nursery, ProcessWorker, WorkerLostError

pytestmark = pytest.mark.anyio

OPENED = '{"corpus_sha256": "hash", "passages": 4, "pace": 0.1}'
ITEMS = [("a", 3, False), ("b", 3, False)]


class Liar(Nursery):
    """A nursery whose workers are a thread, and a process that does nothing."""

    def __init__(self, opening: str, reply: Callable[[int, list], bytes]) -> None:
        self.opening, self.reply = opening, reply
        self.process = subprocess.Popen(["sleep", "60"])

    async def fork(self, connection: socket.socket) -> int:
        threading.Thread(target=self._talk, args=(connection.dup(),), daemon=True).start()
        return os.pidfd_open(self.process.pid)

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            assert _read(connection) is not None
            _say(connection, self.opening)
            text = _read(connection)
            if text is not None:
                connection.sendall(self.reply(*load_batch(text)))

    async def worker(self) -> ProcessWorker:
        return ProcessWorker(Spec("/nowhere", {}), self)


def answers(number: int, groups: list) -> bytes:
    return dump_reply(number, groups, [("found", b"[1]"), ("found", b"[2]")])


async def test_a_reply_is_read_and_a_killed_worker_is_dead() -> None:
    nursery = Liar(OPENED, answers)
    worker = await nursery.worker()
    assert await worker.open() == Opened("hash", 4, 0.1)
    assert await worker.search(ITEMS) == [("found", b"[1]"), ("found", b"[2]")]
    with pytest.raises(WorkerLostError, match="ended"):
        await worker.search(ITEMS)
    await worker.kill()
    assert nursery.process.wait(10) == -9
    await worker.kill()  # once more does no harm


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda number, groups: answers(number + 1, groups), "another batch"),
        (lambda number, groups: answers(number, [(3, False, ["b", "a"])]), "another query"),
        (lambda number, groups: answers(number, [(4, False, ["a", "b"])]), "another query"),
        (lambda number, groups: dump_reply(number, [(3, False, ["a"])], [("found", b"[1]")]), "another batch"),
        (lambda number, groups: LENGTH.pack(3) + b"abc", "another batch"),
        (lambda number, groups: LENGTH.pack(2**32 - 1), "bytes"),
        (lambda number, groups: answers(number, groups)[:-1], "ended"),
        (lambda number, groups: b"", "ended"),
    ],
)
async def test_what_is_no_reply_to_the_batch_loses_the_worker(reply: Any, why: str) -> None:
    nursery = Liar(OPENED, reply)
    worker = await nursery.worker()
    await worker.open()
    with pytest.raises(WorkerLostError, match=why):
        await worker.search(ITEMS)
    await worker.kill()
    nursery.process.wait(10)


@pytest.mark.parametrize(
    ("opening", "error"), [('{"input": "no index"}', InputError), ('{"unavailable": "no cluster"}', WorkerLostError)]
)
async def test_what_cannot_be_opened_is_said(opening: str, error: type[Exception]) -> None:
    nursery = Liar(opening, answers)
    worker = await nursery.worker()
    with pytest.raises(error, match="no "):
        await worker.open()
    await worker.kill()
    nursery.process.wait(10)


async def test_a_nursery_that_cannot_import_forks_nobody() -> None:
    nursery = Nursery(["tasks.no_such_module"], dict(os.environ), 60)
    with pytest.raises(WorkerLostError, match="could not be imported"):
        await ProcessWorker(Spec("/nowhere", {}), nursery).open()
    assert nursery._process is None


async def test_a_fork_that_is_broken_off_is_not_taken_for_the_next() -> None:
    nursery = Nursery([], dict(os.environ), 60)
    first, second, third = (socket.socketpair() for _ in range(3))
    os.close(await nursery.fork(first[1]))
    assert nursery._process is not None
    nursery._process.send_signal(signal.SIGSTOP)
    broken_off = asyncio.create_task(nursery.fork(second[1]))
    await asyncio.sleep(0.1)
    broken_off.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await broken_off
    if nursery._process is not None:
        nursery._process.send_signal(signal.SIGCONT)
    process = await nursery.fork(third[1])
    third[1].close()
    signal.pidfd_send_signal(process, signal.SIGKILL)
    third[0].settimeout(10)
    assert third[0].recv(1) == b""  # the one at its other end
    os.close(process)
    nursery.close()
    for one, other in (first, second, third):
        one.close()
        other.close()


async def test_a_worker_for_which_no_file_can_be_opened_is_lost_and_no_more() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    nursery = Liar(OPENED, answers)
    worker = await nursery.worker()
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))  # none but the standard ones
    try:
        with pytest.raises(WorkerLostError, match="Too many open files"):
            await worker.open()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        nursery.process.kill()
        nursery.process.wait()
