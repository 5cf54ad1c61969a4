"""A worker process of the tool server: `python -m tasks.agent.toolbox.process_worker SOCKET`; started by `workers.py`.

It ends when the server does, however that ends: the kernel tells it, even while a tool holds the GIL.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from typing import Any, NoReturn

from tasks.agent.toolbox.spec import Answering, Spec, WorkerLostError
from tasks.agent.toolbox.workers import read_message, write_message
from tasks.errors import InputError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    spec = Spec.load(await read_message(reader))
    try:
        answering = Answering(spec)
    except InputError as error:
        write_message(writer, {"error": str(error)})
        await writer.drain()
        return
    write_message(writer, {"tools": answering.tools})
    working: set[asyncio.Task[None]] = set()

    async def answer(message: dict[str, Any]) -> None:
        write_message(writer, {"number": message["number"], **await answering.answer(message)})
        await writer.drain()

    while True:
        task = asyncio.create_task(answer(await read_message(reader)))
        working.add(task)
        task.add_done_callback(working.discard)


def main(descriptor: int) -> NoReturn:
    """Answer until the server is gone."""
    end_with_parent()
    with contextlib.suppress(WorkerLostError):  # the server has ended
        asyncio.run(_serve(socket.socket(fileno=descriptor)))
    os._exit(0)  # threads of tools that hang would hold an orderly exit up


if __name__ == "__main__":
    main(int(sys.argv[1]))
