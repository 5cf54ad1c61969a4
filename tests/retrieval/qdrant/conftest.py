import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from tasks.params import Index, Retrieval
from tasks.retrieval.encoders import open_encoder
from tasks.retrieval.index import manifest
from tasks.retrieval.index.build import build as build_index
from tasks.retrieval.index.passages import read_corpus
from tasks.retrieval.qdrant import build
from tasks.retrieval.qdrant.clients import KEY


@dataclass
class Built:
    """An index folder with the dense part, and what a collection of the same is made from."""

    folder: Path
    vectors: np.ndarray
    table: Any

    @property
    def manifest(self) -> dict[str, Any]:
        return manifest.read(self.folder)

    def fill(self, retrieval: Retrieval, **other: Any) -> list[str]:
        """Build the collection, or another one of other parts; the lines that were said."""
        said: list[str] = []
        found = self.manifest
        parts: dict[str, Any] = {
            "vectors": self.vectors,
            "table": self.table,
            "folder": self.folder,
            "retrieval": retrieval,
            "corpus_sha256": found["corpus_sha256"],
            "say": said.append,
            "encoder": found["parts"]["encoder"],
        }
        build(**{**parts, **other})
        return said


@pytest.fixture(scope="session")
def passages() -> list[tuple[str, str, str, str | None]]:
    random = Random(0)
    words = ["".join(random.choices("abcdefghijklmnop", k=random.randint(3, 7))) for _ in range(150)]
    rows = [(f"p{n}", words[n], " ".join(random.choices(words, k=20)), None) for n in range(99)]
    return [*rows, ("p99", "Zürich", "A city.", "https://example.org/zurich")]


@pytest.fixture(scope="session")
def dense_index(tmp_path_factory: pytest.TempPathFactory, index_section, write_corpus, passages) -> Built:
    made = tmp_path_factory.mktemp("qdrant")
    corpus, folder = write_corpus(made / "corpus.parquet", passages), made / "index"
    folder.mkdir()
    section: Index = index_section(build=["dense"], dense={"dimensions": 64})
    build_index(corpus, folder, section, lambda line: None)
    encoder, table = open_encoder(folder, manifest.read(folder)), read_corpus(corpus)
    return Built(folder, encoder.passages([f"{title}\n{text}" for _, title, text, _ in passages]), table)


@pytest.fixture
def built(dense_index: Built, tmp_path: Path) -> Built:
    """An index without a collection, and what to fill one with."""
    return replace(dense_index, folder=shutil.copytree(dense_index.folder, tmp_path / "index"))


class FakeCluster:
    """Qdrant's REST interface, as much as is used, over the library's own model of the server."""

    def __init__(self) -> None:
        self.model, self._lock = QdrantClient(":memory:"), threading.Lock()
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.failing: dict[str, list[Any]] = {}  # end of a path: statuses or functions, one for each request
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                fake.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(handler.path).path)
        content = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        with self._lock:
            self.requests.append(f"{handler.command} {path}")
            self.headers.append({key.lower(): value for key, value in handler.headers.items()})
            fault = next((faults.pop(0) for end, faults in self.failing.items() if path.endswith(end) and faults), 200)
        if callable(fault):
            fault(handler)
            return
        status, body = fault, {"status": {"error": "broken"}, "time": 0.0}
        if status == 200:
            with self._lock:
                result = self.result(handler.command, path.strip("/").split("/"), json.loads(content or b"null"))
            status = 404 if result is None else 200
            body = {"result": result, "status": "ok", "time": 0.0}
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(data)))
        handler.send_header("content-type", "application/json")
        handler.end_headers()
        handler.wfile.write(data)

    def result(self, method: str, parts: list[str], body: Any) -> Any:
        model = self.model
        match method, parts:
            case "GET", ["aliases"]:
                return model.get_aliases().model_dump(mode="json")
            case "POST", ["collections", "aliases"]:
                model.update_collection_aliases(models.ChangeAliasesOperation(**body).actions)
                return True
            case "GET", ["collections", name, "exists"]:
                return {"exists": model.collection_exists(name)}
            case "PUT", ["collections", name]:
                wanted = models.CreateCollection(**body)
                return model.create_collection(name, vectors_config=wanted.vectors, metadata=wanted.metadata)
            case "DELETE", ["collections", name]:
                return model.delete_collection(name)
        if not model.collection_exists(parts[1]):
            return None
        match method, parts:
            case "GET", ["collections", name]:
                return model.get_collection(name).model_dump(mode="json")
            case "PUT", ["collections", name, "points"]:
                return model.upsert(name, models.PointsList(**body).points).model_dump(mode="json")
            case "POST", ["collections", name, "points", "count"]:
                return model.count(name).model_dump(mode="json")
            case "POST", ["collections", name, "points", "query", "batch"]:
                found = model.query_batch_points(name, models.QueryRequestBatch(**body).searches)
                return [one.model_dump(mode="json") for one in found]
        return None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.delenv(KEY, raising=False)
    fake = FakeCluster()
    yield fake
    fake.close()
