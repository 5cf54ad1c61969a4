"""A worker of the tool server: `python -m tasks.agent.toolbox.process_worker SOCKET`; started by `workers.py`.

Two processes in a session of their own: the keeper, and the worker proper, where the tools run. The keeper's standard
input is a socket that no tool can get hold of. When that ends, the server has; then, and when the worker ends, the
keeper kills the whole group, and so what the tools have started. No tool can hold it up by holding the GIL.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from tasks.agent.toolbox.spec import Answering, Spec, WorkerLostError
from tasks.agent.toolbox.workers import read_message, write_message
from tasks.errors import InputError
from tasks.processes import end_with_parent


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    spec = Spec.load(await read_message(reader))
    try:
        answering = Answering(spec, lambda name: write_message(writer, {"opening": name}))
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


def _work(connection: socket.socket) -> NoReturn:
    """Answer until the server is gone."""
    end_with_parent()  # whoever kills the keeper kills the worker
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # the keeper's socket is the keeper's alone
    os.close(nothing)
    with contextlib.suppress(WorkerLostError):  # the server has ended
        asyncio.run(_serve(connection))
    os._exit(0)  # threads of tools that hang would hold an orderly exit up


def _end_group_with_server() -> None:
    try:
        while os.read(0, 1):
            pass
    finally:
        os.killpg(0, signal.SIGKILL)


def main(descriptor: int) -> None:
    """Start the worker and outlive it, to end whatever it leaves; tells the server how it ended."""
    connection = socket.socket(fileno=descriptor)
    worker = os.fork()
    if worker == 0:
        try:
            _work(connection)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    connection.close()
    threading.Thread(target=_end_group_with_server, daemon=True).start()
    _, status = os.waitpid(worker, 0)
    try:
        os.write(0, str(os.waitstatus_to_exitcode(status)).encode())
    finally:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
