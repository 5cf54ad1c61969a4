"""Forks the workers, so that a lost one has a successor within milliseconds: `python -m ...nursery SOCKET`.

What a retriever needs takes seconds to import (torch and sentence-transformers 5 to 7). The nursery imports it once,
opens nothing and searches nothing, and so never starts a thread of its own; each worker is a fork of it, and opens the
index itself. Nursery and workers end when the server's socket does, and by the kernel's hand when their parent ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
from typing import NoReturn

from tasks.processes import end_with_parent

READY = b"r"
FORK = b"f"


def main(descriptor: int, modules: list[str]) -> None:
    """Import modules, say so, and fork a worker for each socket that comes."""
    end_with_parent()
    control = socket.socket(fileno=descriptor)
    for module in ("tasks.retrieval.service.process_worker", *modules):
        importlib.import_module(module)
    gc.freeze()  # what is imported stays shared with the workers
    signal.signal(signal.SIGCHLD, _reap)
    nursery = os.getpid()
    control.sendall(READY)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return  # the server has ended; the workers' parent ends, and they with it
        if os.fork() == 0:
            _work(control, descriptors[0], nursery)
        os.close(descriptors[0])


def _work(control: socket.socket, descriptor: int, nursery: int) -> NoReturn:
    """Be a worker until the server has ended; never comes back into the nursery's loop."""
    try:
        end_with_parent()
        if os.getppid() != nursery:
            os._exit(1)  # it had ended before the line above
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        socket.send_fds(control, [FORK], [os.pidfd_open(os.getpid())])
        control.close()
        from tasks.retrieval.service.process_worker import work

        work(socket.socket(fileno=descriptor))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the server has let it go
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):  # there are none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
