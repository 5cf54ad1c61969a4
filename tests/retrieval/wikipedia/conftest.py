import gzip
import json
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme

from tasks.params import Retrieval
from tasks.processes import MARK
from tasks.retrieval import Hit
from tasks.retrieval.wikipedia import Wikipedia, open_wikipedia

ARTICLES = {
    7: ("Rome", "Rome is the capital of Italy."),
    3: ("Italy", "Italy is a country in Europe."),
    5: ("Roman Empire", "The Roman Empire ruled the Mediterranean."),
}
ENVIRONMENT = (
    *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)


def _page(id: int, rank: int, *, extract: bool = True) -> dict[str, Any]:
    title, text = ARTICLES[id]
    url = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
    found = {"pageid": id, "ns": 0, "title": title, "index": rank, "fullurl": url}
    return {**found, "extract": text} if extract else found


class FakeWikipedia:
    """MediaWiki's action API, as much as the search needs, over TLS; it keeps every call that it gets."""

    def __init__(self, identity: trustme.LeafCert) -> None:
        self.calls: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[Any] = []
        self.most_at_a_time = self._now = 0
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.handle(self)

            def log_message(self, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        identity.configure_cert(context)
        # The handshake is made by the connection's own thread: one that fails must not end the server.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self.endpoint = f"https://localhost:{self.port}/w/api.php"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        form = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self._lock:
            self._now += 1
            self.most_at_a_time = max(self.most_at_a_time, self._now)
            self.calls.append(form)
            self.headers.append({key.lower(): value for key, value in handler.headers.items()})
            says = self.script.pop(0) if self.script else SimpleNamespace(body=self.found(form), status=200, headers={})
        try:
            if parts.path != "/w/api.php":
                says = SimpleNamespace(body="not here", status=404, headers={})
            if callable(says):
                says(handler)
                return
            body = says.body if isinstance(says.body, bytes) else json.dumps(says.body).encode()
            body = gzip.compress(body)
            handler.send_response(says.status)
            own = {"content-encoding": "gzip", "content-length": str(len(body))}
            for key, value in {**says.headers, **own}.items():
                handler.send_header(key, value)
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            handler.close_connection = True  # the client has gone
        finally:
            with self._lock:
                self._now -= 1

    def found(self, form: dict[str, str]) -> dict[str, Any]:
        """Articles that hold a word of the query: in the order of their numbers, as MediaWiki gives them."""
        words = form["gsrsearch"].lower().split()
        ids = [id for id, (title, text) in ARTICLES.items() if any(w in f"{title} {text}".lower() for w in words)]
        shown = {id: rank for rank, id in enumerate(ids[: int(form["gsrlimit"])], 1)}
        if not shown:
            return {"batchcomplete": True}
        more = {"continue": {"gsroffset": len(shown), "continue": "gsroffset||"}} if len(ids) > len(shown) else {}
        return {"batchcomplete": True, **more, "query": {"pages": [_page(id, shown[id]) for id in sorted(shown)]}}


@pytest.fixture(scope="session")
def page() -> Callable[..., dict[str, Any]]:
    """A page of a reply."""
    return _page


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def bundle(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
def make_fake(authority: trustme.CA) -> Iterator[Callable[..., FakeWikipedia]]:
    """A fake whose certificate is for certain hosts."""
    made = []

    def make(*hosts: str) -> FakeWikipedia:
        made.append(FakeWikipedia(authority.issue_cert(*hosts)))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def fake(make_fake: Callable[..., FakeWikipedia]) -> FakeWikipedia:
    return make_fake("localhost", "127.0.0.1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bundle: Path) -> Path:
    """A workspace of its own, no proxy, and the fake's authority as the only one."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    return tmp_path


@pytest.fixture
def opened(retrieval: Callable[..., Retrieval], fake: FakeWikipedia) -> Callable[..., Wikipedia]:
    def make(seconds: float = 5.0, **wikipedia: Any) -> Wikipedia:
        keys = {"endpoint": fake.endpoint, "contact": "someone@example.org", **wikipedia}
        return open_wikipedia(retrieval("wikipedia", seconds=seconds, wikipedia=keys))

    return make


@dataclass
class Proxy:
    address: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy that knows CONNECT alone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Proxy(f"http://127.0.0.1:{listening.getsockname()[1]}")
        threading.Thread(target=_serve, args=(listening, made), daemon=True).start()
        yield made


def _serve(listening: socket.socket, made: Proxy) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return  # the test is over
        threading.Thread(target=_tunnel, args=(client, made), daemon=True).start()


def _tunnel(client: socket.socket, made: Proxy) -> None:
    with client:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        method, target, _ = head.split(b"\r\n")[0].decode().split()
        made.asked.append(f"{method} {target}")
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            while True:
                for one in select.select([client, server], [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    (server if one is client else client).sendall(data)


@pytest.fixture(scope="session")
def answer() -> Callable[..., Any]:
    """One scripted reply; the fake takes whatever has these names."""

    def make(body: Any, status: int = 200, **headers: str) -> Any:
        return SimpleNamespace(body=body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return make


@pytest.fixture(scope="session")
def titles() -> Callable[[list[list[Hit]]], list[list[str]]]:
    """The titles of what was found."""
    return lambda found: [[hit.passage.title for hit in hits] for hits in found]
