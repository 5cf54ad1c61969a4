"""HTTP connections whose requests end in time as a whole, and a pool of them for many threads.

httpcore limits every read by itself, so that a server that sends a byte a second could hold a request up for ever. Its
network back end can be replaced by one's own, and that is where the time of a whole request is kept.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore

MOST_BYTES = 1 << 24  # of a reply
# Servers close idle connections after 5 s by default: one that is kept for less hardly ever breaks under a request.
KEPT_SECONDS = 2.0
MOST_CONNECTIONS = 64  # whoever finds none free waits for one, in its own time

_end: ContextVar[float] = ContextVar("end")


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let all requests of this thread inside the block take so many seconds together."""
    before = _end.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(before)


def _left(late: type[httpcore.TimeoutException]) -> float:
    """Seconds left.

    Raises:
        httpcore.TimeoutException: none; the kind is `late`.
    """
    left = _end.get() - time.monotonic()
    if left <= 0:
        raise late("no time is left")
    return left


def seconds_left() -> float:
    """Seconds that are left inside `within`, more than 0."""
    return max(1e-3, _end.get() - time.monotonic())


class _Stream(httpcore.NetworkStream):
    """A stream that asks for the time left, whatever it is told."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _left(httpcore.ConnectTimeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    """Opens streams that keep the time; looking a host's name up is the system's, and takes the time that it takes."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


@dataclass(frozen=True)
class Reply:
    """What a server has answered; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class TooLongError(ValueError):
    """A reply of more than `MOST_BYTES`."""


class Connections:
    """Connections to one server, for many threads; proxies are left aside, since a proxy knows no loopback address.

    Args:
        address: `http://HOST:PORT`, or https, without a slash at its end.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._renew()
        _every.add(self)

    def _renew(self) -> None:
        """Begin without a connection."""
        self._pool = httpcore.ConnectionPool(
            max_connections=MOST_CONNECTIONS, keepalive_expiry=KEPT_SECONDS, network_backend=_Backend()
        )

    def ask(self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request, inside `within`; its reply, whatever its status.

        Raises:
            httpcore.TimeoutException: the time is up.
            httpcore.NetworkError: no connection, or a broken one.
            httpcore.RemoteProtocolError: no HTTP, or a connection that was closed before the end.
            TooLongError: the reply is too long.
        """
        waiting = {"timeout": {"pool": _left(httpcore.PoolTimeout)}}
        sent: list[tuple[bytes | str, bytes | str]] = [*(headers or {}).items()]
        url = f"{self._address}{path}"
        with self._pool.stream(method, url, headers=sent, content=content, extensions=waiting) as response:
            body = bytearray()
            for part in response.iter_stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise TooLongError(f"a reply of more than {MOST_BYTES:,} bytes")
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Reply(response.status, received, bytes(body))


_every: weakref.WeakSet[Connections] = weakref.WeakSet()


def _renew_every() -> None:
    for connections in _every:
        connections._renew()


# Two processes that ask over one connection would read each other's answers.
os.register_at_fork(after_in_child=_renew_every)
