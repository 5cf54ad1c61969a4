"""The worker's side of its socket: reads batches, searches, writes replies; forked by `nursery.py`."""

from __future__ import annotations

import gc
import json
import socket
from dataclasses import asdict

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.service.searching import Searcher, Spec
from tasks.retrieval.service.wire import LENGTH, dump_reply, load_batch


def _read(connection: socket.socket) -> bytes | None:
    """One frame without its length; None where the server has ended."""
    head = _exactly(connection, LENGTH.size)
    return None if head is None else _exactly(connection, LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    content = bytearray(count)
    view = memoryview(content)
    while view:
        got = connection.recv_into(view)
        if not got:
            return None
        view = view[got:]
    return bytes(content)


def _say(connection: socket.socket, text: str) -> None:
    content = text.encode()
    connection.sendall(LENGTH.pack(len(content)) + content)


def work(connection: socket.socket) -> None:
    """Open what the first frame names, say so, and answer batches until the server has ended."""
    first = _read(connection)
    if first is None:
        return
    try:
        searcher = Searcher(Spec.load(first.decode()))
    except (InputError, UnavailableError) as error:
        kind = "input" if isinstance(error, InputError) else "unavailable"
        _say(connection, json.dumps({kind: str(error)}))
        return
    gc.freeze()
    _say(connection, json.dumps(asdict(searcher.opened)))
    while (text := _read(connection)) is not None:
        number, groups = load_batch(text)
        connection.sendall(dump_reply(number, groups, searcher.answer(groups)))
