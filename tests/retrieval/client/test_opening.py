"""Which servers a client is opened at, and which are refused in one line."""

import json
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InputError
from tasks.retrieval.client.searching import open_client

CORPUS = "c" * 64
READY = {"corpus_sha256": CORPUS, "retriever": "bm25", "passages": 2, "topk": 3, "workers": 1}
SECTION = SimpleNamespace(seconds=0.6, retriever="bm25", topk=3)


def ready(**said: Any) -> Callable[[Any], None]:
    def act(handler: Any) -> None:
        if handler.path == "/ready":
            return handler.say(200, {**READY, **said})
        return handler.found()

    return act


def opening(address: str, corpus: str | None = CORPUS) -> str:
    with pytest.raises(InputError) as raised:
        open_client(address, SECTION, corpus)
    assert "\n" not in str(raised.value) and str(raised.value).startswith("retrieval.server: ")
    return str(raised.value)


def test_a_server_that_is_ready_is_opened(serve: Any) -> None:
    server = serve(ready())
    for corpus in (CORPUS, None):
        assert open_client(f"{server.address}/", SECTION, corpus).search(["a"], 1)
    assert [handler.headers.get("x-corpus-sha256") for handler in server.seen] == [CORPUS] * 3 + [None] * 3


def test_a_server_that_is_not_ready_or_searches_something_else_is_refused(serve: Any) -> None:
    address = serve(lambda handler: handler.say(503, {"detail": "1 of 2 workers are ready"})).address
    assert opening(address) == (
        f"retrieval.server: the retrieval server at {address} is not ready: 1 of 2 workers are ready"
    )
    assert "searches corpus dddddddddddd, not cccccccccccc" in opening(serve(ready(corpus_sha256="d" * 64)).address)
    assert "searches by 'dense', not 'bm25'" in opening(serve(ready(retriever="dense")).address)
    assert "another corpus: it has d" in opening(
        serve(lambda handler: handler.say(409, {"detail": "it has d"})).address
    )


def test_where_there_is_no_server(serve: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert f"no retrieval server answers at {address}" in opening(address)
    for address in ("http://.", "http://nowhere.invalid", "ftp://127.0.0.1", "http://127.0.0.1:port", "http://ü ü"):
        assert "no retrieval server answers" in opening(address)
    for act in ("close", "no_http", lambda handler: handler.say(200, b"<html>")):
        assert "no retrieval server answers" in opening(serve(act).address)


@pytest.mark.parametrize("ours", [True, False])
def test_a_server_that_would_refuse_every_search_is_refused(serve: Any, ours: bool) -> None:
    def act(handler: Any) -> None:
        if handler.path == "/ready":
            return handler.say(200, READY) if ours else handler.say(404, {"detail": "Not Found"})
        if json.loads(handler.body)["topk"] > 2:
            return handler.say(400, {"detail": "topk must be\n1 or 2"})
        return handler.found()

    server = serve(act)
    assert opening(server.address) == (
        f"retrieval.server: the retrieval server at {server.address} refuses the search: 400 topk must be 1 or 2; "
        "name a server of Search-R1's API that takes retrieval.topk, 3"
    )
    fewer = SimpleNamespace(seconds=0.6, retriever="bm25", topk=2)
    assert open_client(server.address, fewer, CORPUS).search(["a"], 2)


def test_a_server_that_stumbles_at_opening_is_tried_again(serve: Any) -> None:
    stumble = iter([lambda handler: handler.say(503, {"detail": "full"})])

    def act(handler: Any) -> None:
        return ready()(handler) if handler.path == "/ready" else handler.do(next(stumble, "found"))

    assert open_client(serve(act).address, SECTION, CORPUS).counters == {"retries": 1}


def test_a_server_that_is_ready_and_overloaded_is_opened_and_another_is_not(
    serve: Any, caplog: pytest.LogCaptureFixture, failure: Any
) -> None:
    def act(handler: Any) -> None:
        return ready()(handler) if handler.path == "/ready" else handler.say(503, {"detail": "full"})

    server = serve(act)
    assert failure(open_client(server.address, SECTION, CORPUS)).kind == "busy"
    assert caplog.messages == [f"a first search has failed: {server.address} is busy: full"]
    unknown = serve(lambda handler: handler.say(404 if handler.path == "/ready" else 503, {"detail": "full"}))
    assert "is busy: full" in opening(unknown.address)


def test_a_server_that_cannot_say_what_it_searches_is_tried(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    def act(handler: Any) -> None:
        if handler.command == "GET":
            return handler.say(404, {"detail": "Not Found"})
        return handler.found()

    server = serve(act)
    assert open_client(server.address, SECTION, CORPUS).search(["a"], 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"the server at {server.address} does not say which corpus it searches: nobody can check it"
    ]
