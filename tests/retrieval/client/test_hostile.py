"""Servers that answer nonsense, or that keep a client waiting: every search ends in time."""

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tasks.retrieval.client import connections


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"",
        b"[" * 100_000,
        [],
        {"result": None},
        {"result": []},
        {"result": [[], []]},
        {"result": [{}]},
        {"result": [["text"]]},
        {"result": [[{"document": None}]]},
        {"result": [[{"document": {"id": "7"}}]]},
        {"result": [[{"document": {"contents": 7}}]]},
        {"result": [[{"document": {"contents": "x", "id": ["7"]}}]]},
        {"result": [[{"document": {"contents": "x", "id": True}}]]},
        {"result": [[{"document": {"contents": "x"}, "score": "1"}]]},
        {"result": [[{"document": {"contents": "x"}, "score": None}]]},
        b'{"result": [[{"document": {"contents": "x"}, "score": NaN}]]}',
        b'{"result": [[{"document": {"contents": "\\ud800"}}]]}',
        b'{"result": [[{"document": {"contents": "\xff"}}]]}',
    ],
    ids=lambda content: str(content)[:60],
)
def test_nonsense_is_no_answer_and_is_not_asked_for_again(serve: Any, content: Any, client: Any, failure: Any) -> None:
    server = serve(lambda handler: handler.say(200, content))
    one = client(server)
    assert failure(one).kind == "nonsense"
    assert one.counters == {"searches": 1, "failures/nonsense": 1} and len(server.seen) == 1


def test_another_status_is_no_answer(serve: Any, client: Any, failure: Any) -> None:
    for status in (204, 301, 500):
        server = serve(lambda handler, status=status: handler.say(status, b"", location="/retrieve"))
        assert failure(client(server)).kind == "nonsense" and len(server.seen) == 1


def test_a_reply_without_end_is_broken_off(
    serve: Any, monkeypatch: pytest.MonkeyPatch, client: Any, failure: Any
) -> None:
    monkeypatch.setattr(connections, "MOST_BYTES", 1000)

    def flood(handler: Any) -> None:
        handler.say(200, b"", content_length="1000000000")
        while True:
            handler.wfile.write(b" " * 4096)

    error = failure(client(serve(flood)))
    assert error.kind == "nonsense" and "more than 1,000 bytes" in str(error)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("never", "timeout"),
        ("drip_head", "timeout"),
        ("drip_body", "timeout"),
        ("close", "connection"),
        ("half", "connection"),
        ("no_http", "connection"),
        (lambda handler: handler.say(503, {"detail": "full"}), "busy"),
        (lambda handler: handler.say(503, {"detail": "full"}, retry_after="60"), "busy"),
    ],
    ids=["never", "drip_head", "drip_body", "close", "half", "no_http", "busy", "long_busy"],
)
def test_no_search_outlives_its_time(serve: Any, act: Any, kind: str, client: Any, failure: Any) -> None:
    assert failure(client(serve(act))).kind == kind


def test_where_nobody_listens_and_where_nobody_accepts(client: Any, failure: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert failure(client(address, corpus=None)).kind == "connection"
        taken.listen(1)  # the kernel takes the connection, and no server ever reads from it
        assert failure(client(address, corpus=None)).kind == "timeout"


def test_whoever_waits_for_a_free_connection_waits_in_its_own_time(
    serve: Any, monkeypatch: pytest.MonkeyPatch, client: Any, failure: Any
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    one = client(serve("never"))
    with ThreadPoolExecutor(3) as pool:
        assert [error.kind for error in pool.map(lambda _: failure(one), range(3))] == ["timeout"] * 3
