"""The client against servers on real sockets: what is sent, what is believed, and many threads."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tasks.errors import InputError
from tasks.retrieval.index.passages import Passage
from tasks.retrieval.retriever import Hit


def test_a_search_is_search_r1s_request_and_brings_its_passages(serve: Any, client: Any) -> None:
    server = serve("found")
    one = client(server)
    found_by = one.session().search(
        ["Kashi", "Z\u00fcrich\U0001f600\ud800"], 3
    )  # half a surrogate pair is no character
    assert found_by == [[Hit(Passage(f"id of {text}", "T", text), 1.5)] for text in ("Kashi", "Z\u00fcrich\U0001f600?")]
    (request,) = server.seen
    assert (request.command, request.path) == ("POST", "/retrieve")
    assert json.loads(request.body) == {"queries": ["Kashi", "Zürich\U0001f600?"], "topk": 3, "return_scores": True}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-corpus-sha256"] == "c" * 64
    assert 0 < float(request.headers["x-deadline-seconds"]) <= 0.6
    assert one.counters == {"searches": 1}


def test_what_a_policy_writes_finds_what_it_would_in_this_process(serve: Any, client: Any) -> None:
    server = serve("found")
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
def test_documents_of_other_peoples_servers(
    serve: Any, document: Any, passage: Passage, form: str, client: Any
) -> None:
    one = {"scored": {"document": document, "score": 2}, "unscored": {"document": document}, "bare": document}[form]
    server = serve(lambda handler: handler.say(200, {"result": [[one, one]]}))
    hit = Hit(passage, 2.0 if form == "scored" else 0.0)
    assert client(server).search(["a"], 1) == [[hit]]
    assert client(server).search(["a"], 5) == [[hit, hit]]


def test_another_corpus_under_way_ends_the_stage_and_is_no_failed_search(serve: Any, client: Any, failure: Any) -> None:
    server = serve(lambda handler: handler.say(409, {"detail": "this server's corpus is dddd"}))
    one = client(server)
    with pytest.raises(InputError, match=r"retrieval\.server: .* another corpus: this server's corpus is dddd"):
        one.search(["a"], 3)
    assert len(server.seen) == 1
    assert failure(client(server, corpus=None)).kind == "refused"  # it was told of none


def test_threads_search_side_by_side_and_each_gets_its_own(serve: Any, client: Any) -> None:
    together = threading.Barrier(16)  # no request is answered before 16 are there: searches in a row would never end

    def act(handler: Any) -> None:
        together.wait(10)
        handler.found()

    server = serve(act)
    one = client(server, 20.0)
    queries = [f"q{n}" for n in range(160)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda query: one.search([query], 3)[0][0].passage.text, queries))
    assert answers == queries and one.counters == {"searches": 160}
    assert len({handler.client_address for handler in server.seen}) <= 32  # connections are kept


def test_a_connection_that_the_server_has_closed_meanwhile_costs_nothing(serve: Any, client: Any) -> None:
    def once(handler: Any) -> None:
        handler.found()
        handler.close()

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
    server = serve("found")
    subprocess.run([sys.executable, "-c", FORKED, server.address], check=True, timeout=60)
    parent, child, _ = (handler.client_address for handler in server.seen)
    assert parent != child
