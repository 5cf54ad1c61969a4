"""The retrieval server as a child process: its API, and bad requests."""

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.retrieval import open_retriever
from tasks.retrieval.index import manifest

JSON = {"content-type": "application/json"}


@pytest.fixture
def local(index: Path, retrieval: Any):
    return open_retriever(index, retrieval("bm25"))


def test_answers_are_the_indexs_own_in_search_r1s_form(server: Any, local: Any) -> None:
    asked = ["capital of Italy", "city", "word7", "unheard-of"]
    found = server.ask(*asked, topk=2, return_scores=True).json()["result"]
    expected = local.search(asked, 2)
    assert found == [
        [
            {
                "document": {
                    "id": hit.passage.id,
                    "title": hit.passage.title,
                    "contents": f'"{hit.passage.title}"\n{hit.passage.text}',
                },
                "score": pytest.approx(hit.score),
            }
            for hit in hits
        ]
        for hits in expected
    ]
    assert [len(hits) for hits in found] == [2, 1, 1, 0]
    plain = server.ask(*asked, topk=2).json()["result"]
    assert plain == [[one["document"] for one in hits] for hits in found]


def test_topk_null_is_the_servers_own_and_a_blank_query_finds_nothing(server: Any) -> None:
    found = server.ask("is a country city capital Italy", " ", topk=None).json()["result"]
    assert [len(hits) for hits in found] == [3, 0]


def test_many_requests_at_once_get_their_own_answers(server: Any, local: Any) -> None:
    texts = [f"word{n}" if n % 2 else "Italy Rome" for n in range(50)]
    expected = {text: [hit.passage.id for hit in local.search([text], 3)[0]] for text in texts}

    async def run() -> None:
        async with httpx.AsyncClient(base_url=server.address, timeout=30) as client:

            async def ask(start: int) -> None:
                for size in (1, 7, 32):
                    asked = [texts[(start + n) % 50] for n in range(size)]
                    reply = await client.post("/retrieve", json={"queries": asked, "topk": 3})
                    assert [[one["id"] for one in hits] for hits in reply.json()["result"]] == [
                        expected[text] for text in asked
                    ]

            await asyncio.gather(*(ask(start) for start in range(24)))

    asyncio.run(run())


def test_it_says_what_it_serves(server: Any, index: Path) -> None:
    assert server.get("/health").json() == {"status": "alive"}
    assert server.get("/ready").json() == {
        "corpus_sha256": manifest.read(index)["corpus_sha256"],
        "retriever": "bm25",
        "passages": 4,
        "topk": 3,
        "workers": 2,
    }


def test_metrics_are_prometheus_and_count(server: Any) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    before = server.metric("retrieval_queries_total")
    server.ask("Italy", "Rome")
    assert server.metric("retrieval_queries_total") == before + 2
    names = {family.name for family in text_string_to_metric_families(server.get("/metrics").text)}
    wanted = ["requests", "queries", "batch_queries", "queue_queries", "wait_seconds", "search_seconds", "cache_hits",
              "cache_misses", "worker_restarts", "deadline_misses", "rejected", "workers", "workers_ready"]  # fmt: skip
    assert {f"forager_retrieval_{name}" for name in wanted} <= names


GOOD = {"queries": ["Rome"]}
BAD: list[tuple[str, str, bytes, dict[str, str], int]] = [
    ("no body", "POST", b"", JSON, 400),
    ("wrong JSON", "POST", b'{"queries": [', JSON, 400),
    ("not UTF-8", "POST", b'{"queries": ["\xff"]}', JSON, 400),
    ("deep JSON", "POST", b"[" * 100_000, JSON, 400),
    ("a list", "POST", b'["Rome"]', JSON, 400),
    ("no queries", "POST", b"{}", JSON, 400),
    ("empty queries", "POST", b'{"queries": []}', JSON, 400),
    ("a blank query", "POST", b'{"queries": [""]}', JSON, 400),
    ("a bare string", "POST", b'{"queries": "Rome"}', JSON, 400),
    ("a number", "POST", b'{"queries": [7]}', JSON, 400),
    ("null", "POST", b'{"queries": [null]}', JSON, 400),
    ("NUL bytes", "POST", b'{"queries": ["a\\u0000b"]}', JSON, 400),
    ("raw NUL bytes", "POST", b'{"queries": ["a\0b"]}', JSON, 400),
    ("a lone surrogate", "POST", b'{"queries": ["\\ud800"]}', JSON, 400),
    ("1 MB query", "POST", json.dumps({"queries": ["x" * 1_000_000]}).encode(), JSON, 413),
    ("5,000 queries", "POST", json.dumps({"queries": ["x"] * 5000}).encode(), JSON, 413),
    ("10 MB body", "POST", b'{"queries": ["' + b"x" * 10_000_000 + b'"]}', JSON, 413),
    *((f"topk {topk}", "POST", b'{"queries": ["a"], "topk": %s}' % topk, JSON, 400)
      for topk in (b"0", b"-1", b"1000000000", b"true", b"3.5", b'"3"', b"1" + b"0" * 100)),
    ("scores", "POST", b'{"queries": ["a"], "return_scores": 1}', JSON, 400),
    ("wrong method", "GET", b"", JSON, 405),
    ("another wrong method", "DELETE", b"", JSON, 405),
    ("wrong type", "POST", json.dumps(GOOD).encode(), {"content-type": "text/plain"}, 415),
    ("no type", "POST", json.dumps(GOOD).encode(), {}, 415),
    ("deadline 0", "POST", json.dumps(GOOD).encode(), {**JSON, "x-deadline-seconds": "0"}, 400),
    ("another corpus", "POST", json.dumps(GOOD).encode(), {**JSON, "x-corpus-sha256": "0" * 64}, 409),
]  # fmt: skip


@pytest.mark.parametrize(("method", "body", "headers", "status"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
def test_a_bad_request_is_told_what_is_wrong_and_harms_nobody(
    server: Any, method: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    restarts = server.metric("retrieval_worker_restarts_total")
    reply = httpx.request(method, f"{server.address}/retrieve", content=body, headers=headers)
    detail = reply.json()["detail"]
    assert reply.status_code == status and len(detail) > 10 and "\n" not in detail
    assert server.ask("capital of Italy").json()["result"][0][0]["id"] == "p0"
    assert server.metric("retrieval_worker_restarts_total") == restarts


def test_a_wrong_path_and_no_http_at_all(server: Any) -> None:
    assert server.get("/retriever").status_code == 404
    gone = httpx.post(f"{server.address}/retrieve/", json={"queries": ["Rome"]})
    assert gone.status_code == 404 and gone.json() == {"detail": "Not Found"}
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(b"what is this?\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_the_right_corpus_is_served(server: Any, index: Path) -> None:
    known = manifest.read(index)["corpus_sha256"]
    assert server.ask("Rome", headers={"x-corpus-sha256": known}).status_code == 200


def test_half_a_body_holds_nothing_and_ends_at_the_deadline(server: Any) -> None:
    connections = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", server.port), 10)
        connection.sendall(
            b"POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b'x-deadline-seconds: 0.3\r\ncontent-length: 100\r\n\r\n{"queries":'
        )
        connections.append(connection)
    assert server.ask("Rome").status_code == 200 and server.metric("retrieval_queue_queries") == 0
    for connection in connections:
        said = b""
        while part := connection.recv(1000):  # until the server closes
            said += part
        assert said.startswith(b"HTTP/1.1 408")
        connection.close()


def test_a_client_that_goes_amid_its_body_is_counted_and_no_error(serve: Any) -> None:
    with serve("--workers", "1") as server:
        server.ready()
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(
                b"POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
            )
        deadline = time.monotonic() + 10
        while server.metric("retrieval_disconnected_total") != 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert server.end() == (0, "")
