"""The client against servers on real sockets: what is sent, what is believed, and that every search ends in time."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.client import breaker, connections
from tasks.retrieval.client.searching import RemoteRetriever, open_client
from tasks.retrieval.client.tries import SearchFailedError
from tasks.retrieval.index.passages import Passage
from tasks.retrieval.retriever import Hit

SECONDS = 0.6  # of a search
SLACK = 1.0  # how much later than that it may end, on a machine that is busy
CORPUS = "c" * 64
READY = {"corpus_sha256": CORPUS, "retriever": "bm25", "passages": 2, "topk": 3, "workers": 1}

Act = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Does what its server's `act` says; 1.1, so that connections are kept."""

    protocol_version = "HTTP/1.1"
    server: Any

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append(self)
        self.server.act(self)

    do_GET = do_POST = answer

    def say(self, status: int, content: Any = None, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content_length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

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
    servers: list[Server] = []

    def start(act: Act) -> Server:
        servers.append(Server(act))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def found(handler: Handler, **document: Any) -> None:
    """One document a query: the query itself, unless the test names another."""
    queries = json.loads(handler.body)["queries"]
    documents = [document or {"id": f"id of {one}", "contents": f'"T"\n{one}'} for one in queries]
    handler.say(200, {"result": [[{"document": one, "score": 1.5}] for one in documents]})


def client(server: Server, seconds: float = SECONDS, corpus: str | None = CORPUS) -> RemoteRetriever:
    return RemoteRetriever(server.address, seconds, corpus)


@contextmanager
def timed(most: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < most


def failure(of: RemoteRetriever, seconds: float = SECONDS) -> SearchFailedError:
    with timed(seconds + SLACK), pytest.raises(UnavailableError) as raised:
        of.search(["a"], 3)
    assert isinstance(raised.value, SearchFailedError) and not raised.value.spent
    return raised.value


# What is sent and what is believed


def test_a_search_is_search_r1s_request_and_brings_its_passages(serve: Any) -> None:
    server = serve(found)
    one = client(server)
    found_by = one.session().search(
        ["Kashi", "Z\u00fcrich\U0001f600\ud800"], 3
    )  # half a surrogate pair is no character
    assert found_by == [[Hit(Passage(f"id of {text}", "T", text), 1.5)] for text in ("Kashi", "Z\u00fcrich\U0001f600?")]
    (request,) = server.seen
    assert (request.command, request.path) == ("POST", "/retrieve")
    assert json.loads(request.body) == {"queries": ["Kashi", "Zürich\U0001f600?"], "topk": 3, "return_scores": True}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-corpus-sha256"] == CORPUS
    assert 0 < float(request.headers["x-deadline-seconds"]) <= SECONDS
    assert one.counters == {"searches": 1}


def test_what_a_policy_writes_finds_what_it_would_in_this_process(serve: Any) -> None:
    server = serve(found)
    one = client(server)
    assert [len(hits) for hits in one.search(["Kashi", " \n", "", "Ro\0ve", "\0"], 3)] == [1, 0, 0, 1, 0]
    assert [json.loads(request.body)["queries"] for request in server.seen] == [["Kashi", "Ro ve"]]
    assert one.search([" ", "\0"], 3) == [[], []]
    assert one.search([], 3) == []
    assert len(server.seen) == 1  # a server may refuse a request that says nothing, as ours does
    assert one.counters == {"searches": 1}


@pytest.mark.parametrize(
    ("document", "passage"),
    [
        ({"id": "7", "title": "T", "contents": '"T"\nx'}, Passage("7", "T", "x")),
        ({"id": 7, "contents": '"T"\nx\ny'}, Passage("7", "T", "x\ny")),
        ({"id": "7", "title": 'A "B"\nC', "contents": '"A "B"\nC"\nx'}, Passage("7", 'A "B"\nC', "x")),
        ({"id": "7", "title": "other", "contents": '"T"\nx'}, Passage("7", "T", "x")),
        ({"id": "7", "contents": "T\nx"}, Passage("7", "T", "x")),
        ({"id": "7", "contents": "one line"}, Passage("7", "", "one line")),
        ({"id": "7", "contents": ""}, Passage("7", "", "")),
        ({"id": "7", "contents": '"T"\nx', "url": "https://x"}, Passage("7", "T", "x", "https://x")),
        # sha256 of the contents, 16 digits of it
        ({"contents": '"T"\nx'}, Passage("842515f9ccff04ee", "T", "x")),
    ],
)
@pytest.mark.parametrize("form", ["scored", "unscored", "bare"])
def test_documents_of_other_peoples_servers(serve: Any, document: Any, passage: Passage, form: str) -> None:
    one = {"scored": {"document": document, "score": 2}, "unscored": {"document": document}, "bare": document}[form]
    server = serve(lambda handler: handler.say(200, {"result": [[one, one]]}))
    hit = Hit(passage, 2.0 if form == "scored" else 0.0)
    assert client(server).search(["a"], 1) == [[hit]]
    assert client(server).search(["a"], 5) == [[hit, hit]]


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
def test_nonsense_is_no_answer_and_is_not_asked_for_again(serve: Any, content: Any) -> None:
    server = serve(lambda handler: handler.say(200, content))
    one = client(server)
    assert failure(one).kind == "nonsense"
    assert one.counters == {"searches": 1, "failures/nonsense": 1} and len(server.seen) == 1


def test_a_reply_without_end_is_broken_off(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_BYTES", 1000)

    def flood(handler: Handler) -> None:
        handler.say(200, b"", content_length="1000000000")
        while True:
            handler.wfile.write(b" " * 4096)

    error = failure(client(serve(flood)))
    assert error.kind == "nonsense" and "more than 1,000 bytes" in str(error)


# Time


def never(handler: Handler) -> None:
    time.sleep(SECONDS + 2 * SLACK)


def drip_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(1000):
        handler.wfile.write(f"x-{n}: y\r\n".encode())
        time.sleep(0.02)


def drip_body(handler: Handler) -> None:
    handler.say(200, b"", content_length="1000000")
    for _ in range(1000):
        handler.wfile.write(b" ")
        time.sleep(0.02)


def close(handler: Handler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def half(handler: Handler) -> None:
    handler.say(200, b'{"result": [[', content_length="1000")
    close(handler)


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"220 smtp.example.org ESMTP\r\n")
    close(handler)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (never, "timeout"),
        (drip_head, "timeout"),
        (drip_body, "timeout"),
        (close, "connection"),
        (half, "connection"),
        (no_http, "connection"),
        (lambda handler: handler.say(503, {"detail": "full"}), "busy"),
        (lambda handler: handler.say(503, {"detail": "full"}, retry_after="60"), "busy"),
    ],
    ids=["never", "drip_head", "drip_body", "close", "half", "no_http", "busy", "long_busy"],
)
def test_no_search_outlives_its_time(serve: Any, act: Act, kind: str) -> None:
    assert failure(client(serve(act))).kind == kind


def test_a_last_try_that_runs_out_of_time_does_not_hide_why_there_were_others(serve: Any) -> None:
    one = client(serve(after(lambda handler: handler.say(503, {"detail": "full"}), then=never)))
    error = failure(one)
    assert error.kind == "busy" and str(error).endswith(" is busy: full")
    assert one.counters == {"searches": 1, "retries": 1, "failures/busy": 1}


def test_where_nobody_listens_and_where_nobody_accepts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert failure(RemoteRetriever(address, SECONDS, None)).kind == "connection"
        taken.listen(1)  # the kernel takes the connection, and no server ever reads from it
        assert failure(RemoteRetriever(address, SECONDS, None)).kind == "timeout"


def test_whoever_waits_for_a_free_connection_waits_in_its_own_time(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    one = client(serve(never))
    with ThreadPoolExecutor(3) as pool:
        assert [error.kind for error in pool.map(lambda _: failure(one), range(3))] == ["timeout"] * 3


# Tries


def after(*first: Act, then: Act = found) -> Act:
    """Each of the first requests is treated so; later ones are answered."""
    acts = iter(first)
    return lambda handler: next(acts, then)(handler)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_search_that_failed_on_the_way_is_tried_again(serve: Any, status: int) -> None:
    server = serve(after(close, lambda handler: handler.say(status, b"busy"), half))
    one = client(server, 5.0)
    assert one.search(["a"], 3)[0][0].passage.text == "a"
    assert one.counters == {"searches": 1, "retries": 3} and len(server.seen) == 4


@pytest.mark.parametrize("status", [400, 401, 404, 405, 413, 415, 422, 429])
def test_what_the_server_refuses_is_not_tried_again(serve: Any, status: int) -> None:
    server = serve(lambda handler: handler.say(status, {"detail": "queries:\nno strings"}))
    one = client(server)
    for _ in range(2 * breaker.FAILURES):  # the server is well: it is asked every time
        error = failure(one)
        assert error.kind == "refused" and str(error).endswith(f"{status} queries: no strings")
    assert one.counters["retries"] == 0 and len(server.seen) == 2 * breaker.FAILURES


def test_another_status_is_no_answer(serve: Any) -> None:
    for status in (204, 301, 500):
        server = serve(lambda handler, status=status: handler.say(status, b"", location="/retrieve"))
        assert failure(client(server)).kind == "nonsense" and len(server.seen) == 1


@pytest.mark.parametrize("form", ["number", "date"])
def test_a_server_that_names_a_time_is_left_alone_for_so_long(serve: Any, form: str) -> None:
    times: list[float] = []

    def busy(handler: Handler) -> None:
        times.append(time.monotonic())
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)  # whole seconds: 1 to 2 from now
        handler.say(503, b"", retry_after="1" if form == "number" else later)

    def free(handler: Handler) -> None:
        times.append(time.monotonic())
        found(handler)

    acts = iter([busy, free])
    client(serve(lambda handler: next(acts)(handler)), 10.0).search(["a"], 3)
    assert times[1] - times[0] >= 0.95


def test_a_time_beyond_the_search_is_not_waited_for(serve: Any) -> None:
    one = client(serve(lambda handler: handler.say(503, b"", retry_after="9")), 8.0)
    assert failure(one, 0.0).kind == "busy"


@pytest.mark.parametrize("value", ["", "soon", "-5", "1e3", "٣", "Mon, 30 Nov 1999 20:18:08"])
def test_a_time_that_is_none_is_none(serve: Any, value: str) -> None:
    server = serve(after(lambda handler: handler.say(503, b"", retry_after=value.encode().decode("latin-1"))))
    assert client(server, 5.0).search(["a"], 3) and len(server.seen) == 2


# The breaker


def test_a_server_that_fails_again_and_again_is_left_alone_and_then_tried_by_one(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "PAUSE", 0.3)
    well = threading.Event()
    asked, go = threading.Event(), threading.Event()

    def act(handler: Handler) -> None:
        if not well.is_set():
            return handler.say(500, b"")
        asked.set()
        go.wait(10)
        return found(handler)

    server = serve(act)
    one = client(server, 5.0)
    for _ in range(breaker.FAILURES):
        assert failure(one).kind == "nonsense"
    with timed(0.3):
        assert failure(one).kind == "open"
    assert len(server.seen) == breaker.FAILURES
    time.sleep(0.4)
    assert failure(one).kind == "nonsense"  # the one that tries
    assert failure(one).kind == "open"
    assert one.counters["openings"] == 2
    well.set()
    time.sleep(0.4)
    with ThreadPoolExecutor(1) as pool:
        trial = pool.submit(one.search, ["a"], 3)
        assert asked.wait(5)
        assert failure(one).kind == "open"  # one at a time
        go.set()
        assert trial.result()
    assert one.search(["b"], 3)[0][0].passage.text == "b"
    assert one.counters == {
        "searches": breaker.FAILURES + 6, "openings": 2, "failures/nonsense": breaker.FAILURES + 1, "failures/open": 3,
    }  # fmt: skip


def test_failures_that_are_not_in_a_row_do_not_count(serve: Any) -> None:
    turn = iter(range(1000))
    server = serve(lambda handler: found(handler) if next(turn) % breaker.FAILURES == 0 else handler.say(500, b""))
    one = client(server)
    for _ in range(3):
        assert one.search(["a"], 3)
        for _ in range(breaker.FAILURES - 1):
            assert failure(one).kind == "nonsense"
    assert one.counters["openings"] == 0


def test_many_that_fail_at_once_open_it_once(serve: Any) -> None:
    together = threading.Barrier(3 * breaker.FAILURES)

    def act(handler: Handler) -> None:
        together.wait(10)
        handler.say(500, b"")

    one = client(serve(act), 10.0)
    with ThreadPoolExecutor(3 * breaker.FAILURES) as pool:
        kinds = list(pool.map(lambda _: failure(one, 10.0).kind, range(3 * breaker.FAILURES)))
    assert kinds == ["nonsense"] * 3 * breaker.FAILURES and one.counters["openings"] == 1


# Many threads


def test_threads_search_side_by_side_and_each_gets_its_own(serve: Any) -> None:
    together = threading.Barrier(16)  # no request is answered before 16 are there: searches in a row would never end

    def act(handler: Handler) -> None:
        together.wait(10)
        found(handler)

    server = serve(act)
    one = client(server, 20.0)
    queries = [f"q{n}" for n in range(160)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda query: one.search([query], 3)[0][0].passage.text, queries))
    assert answers == queries and one.counters == {"searches": 160}
    assert len({handler.client_address for handler in server.seen}) <= 32  # connections are kept


def test_a_connection_that_the_server_has_closed_meanwhile_costs_nothing(serve: Any) -> None:
    def once(handler: Handler) -> None:
        found(handler)
        close(handler)

    one = client(serve(once), 5.0)
    for _ in range(5):
        assert one.search(["a"], 3)
    assert not [name for name in one.counters if name.startswith("failures")]


FORKED = """
import os, sys
from tasks.retrieval.client.searching import RemoteRetriever
one = RemoteRetriever(sys.argv[1], 30.0, None)
assert one.search(["parent"], 1)
child = os.fork()
if child == 0:
    os._exit(0 if one.search(["child"], 1)[0][0].passage.text == "child" else 1)
assert os.waitpid(child, 0)[1] == 0
assert one.search(["parent"], 1)[0][0].passage.text == "parent"
"""


def test_a_forked_process_has_connections_of_its_own(serve: Any) -> None:
    server = serve(found)
    subprocess.run([sys.executable, "-c", FORKED, server.address], check=True, timeout=60)
    parent, child, _ = (handler.client_address for handler in server.seen)
    assert parent != child


# Opening


SECTION = SimpleNamespace(seconds=SECONDS, retriever="bm25", topk=3)


def ready(**said: Any) -> Act:
    def act(handler: Handler) -> None:
        if handler.path == "/ready":
            return handler.say(200, {**READY, **said})
        return found(handler)

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
    for act in (close, no_http, lambda handler: handler.say(200, b"<html>")):
        assert "no retrieval server answers" in opening(serve(act).address)


@pytest.mark.parametrize("ours", [True, False])
def test_a_server_that_would_refuse_every_search_is_refused(serve: Any, ours: bool) -> None:
    def act(handler: Handler) -> None:
        if handler.path == "/ready":
            return handler.say(200, READY) if ours else handler.say(404, {"detail": "Not Found"})
        if json.loads(handler.body)["topk"] > 2:
            return handler.say(400, {"detail": "topk must be\n1 or 2"})
        return found(handler)

    server = serve(act)
    assert opening(server.address) == (
        f"retrieval.server: the retrieval server at {server.address} refuses the search: 400 topk must be 1 or 2; "
        "name a server of Search-R1's API that takes retrieval.topk, 3"
    )
    fewer = SimpleNamespace(seconds=SECONDS, retriever="bm25", topk=2)
    assert open_client(server.address, fewer, CORPUS).search(["a"], 2)


def test_a_server_that_stumbles_at_opening_is_tried_again(serve: Any) -> None:
    stumble = iter([lambda handler: handler.say(503, {"detail": "full"})])

    def act(handler: Handler) -> None:
        return ready()(handler) if handler.path == "/ready" else next(stumble, found)(handler)

    assert open_client(serve(act).address, SECTION, CORPUS).counters == {"retries": 1}


def test_a_server_that_is_ready_and_overloaded_is_opened_and_another_is_not(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def act(handler: Handler) -> None:
        return ready()(handler) if handler.path == "/ready" else handler.say(503, {"detail": "full"})

    server = serve(act)
    assert failure(open_client(server.address, SECTION, CORPUS)).kind == "busy"
    assert caplog.messages == [f"a first search has failed: {server.address} is busy: full"]
    unknown = serve(lambda handler: handler.say(404 if handler.path == "/ready" else 503, {"detail": "full"}))
    assert "is busy: full" in opening(unknown.address)


def test_a_server_that_cannot_say_what_it_searches_is_tried(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    def act(handler: Handler) -> None:
        if handler.command == "GET":
            return handler.say(404, {"detail": "Not Found"})
        return found(handler)

    server = serve(act)
    assert open_client(server.address, SECTION, CORPUS).search(["a"], 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"the server at {server.address} does not say which corpus it searches: nobody can check it"
    ]


def test_another_corpus_under_way_ends_the_stage_and_is_no_failed_search(serve: Any) -> None:
    server = serve(lambda handler: handler.say(409, {"detail": "this server's corpus is dddd"}))
    one = client(server)
    with pytest.raises(InputError, match=r"retrieval\.server: .* another corpus: this server's corpus is dddd"):
        one.search(["a"], 3)
    assert len(server.seen) == 1
    assert failure(client(server, corpus=None)).kind == "refused"  # it was told of none
