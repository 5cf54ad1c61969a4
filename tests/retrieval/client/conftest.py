import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tasks.errors import UnavailableError
from tasks.retrieval.client.searching import RemoteRetriever
from tasks.retrieval.client.tries import SearchFailedError

SECONDS = 0.6  # of a search
SLACK = 1.0  # how much later than that it may end, on a machine that is busy
CORPUS = "c" * 64

Act = Callable[["Handler"], None] | str  # the name of one of the handler's own


class Handler(BaseHTTPRequestHandler):
    """Does what its server's `act` says; 1.1, so that connections are kept."""

    protocol_version = "HTTP/1.1"
    server: Any

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append(self)
        self.do(self.server.act)

    do_GET = do_POST = answer

    def do(self, act: Act) -> None:
        getattr(self, act)() if isinstance(act, str) else act(self)

    def say(self, status: int, content: Any = None, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content_length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def found(self) -> None:
        """One document a query: the query itself."""
        queries = json.loads(self.body)["queries"]
        documents = [{"id": f"id of {one}", "contents": f'"T"\n{one}'} for one in queries]
        self.say(200, {"result": [[{"document": one, "score": 1.5}] for one in documents]})

    def never(self) -> None:
        time.sleep(SECONDS + 2 * SLACK)

    def drip_head(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for n in range(1000):
            self.wfile.write(f"x-{n}: y\r\n".encode())
            time.sleep(0.02)

    def drip_body(self) -> None:
        self.say(200, b"", content_length="1000000")
        for _ in range(1000):
            self.wfile.write(b" ")
            time.sleep(0.02)

    def close(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def half(self) -> None:
        self.say(200, b'{"result": [[', content_length="1000")
        self.close()

    def no_http(self) -> None:
        self.wfile.write(b"220 smtp.example.org ESMTP\r\n")
        self.close()

    def log_message(self, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A server whose manners a test decides."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, act: Act) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.act, self.seen = act, list[Handler]()
        self.address = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *args: Any) -> None:
        pass  # connections break here on purpose


@pytest.fixture
def serve() -> Iterator[Callable[[Act], Server]]:
    """Starts a server that does to each request what it is told."""
    servers: list[Server] = []

    def start(act: Act) -> Server:
        servers.append(Server(act))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def after() -> Callable[..., Act]:
    """Has each of the first requests treated so, and later ones otherwise."""

    def make(*first: Act, then: Act = "found") -> Act:
        acts = iter(first)
        return lambda handler: handler.do(next(acts, then))

    return make


@pytest.fixture(scope="session")
def client() -> Callable[..., RemoteRetriever]:
    """Makes a client of a server, or of an address."""

    def make(server: Server | str, seconds: float = SECONDS, corpus: str | None = CORPUS) -> RemoteRetriever:
        return RemoteRetriever(server if isinstance(server, str) else server.address, seconds, corpus)

    return make


@contextmanager
def _timed(most: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < most


@pytest.fixture(scope="session")
def timed() -> Callable[[float], AbstractContextManager[None]]:
    """A block that may take so many seconds."""
    return _timed


@pytest.fixture(scope="session")
def failure() -> Callable[..., SearchFailedError]:
    """How a search fails, within its time."""

    def of(client: RemoteRetriever, seconds: float = SECONDS) -> SearchFailedError:
        with _timed(seconds + SLACK), pytest.raises(UnavailableError) as raised:
            client.search(["a"], 3)
        assert isinstance(raised.value, SearchFailedError) and not raised.value.spent
        return raised.value

    return of
