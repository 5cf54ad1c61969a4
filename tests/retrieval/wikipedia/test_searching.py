import contextlib
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InputError, UnavailableError
from tasks.processes import MARK
from tasks.retrieval import Hit
from tasks.retrieval.wikipedia import Wikipedia
from tasks.retrieval.wikipedia.searching import CACHE

ITALY = [["Rome", "Italy", "Roman Empire"]]
ROME_URL = "https://en.wikipedia.org/wiki/Rome"


def answer(body: Any, status: int = 200, **headers: str) -> Any:
    """One scripted reply; the fake takes whatever has these names."""
    return SimpleNamespace(body=body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def titles(found: list[list[Hit]]) -> list[list[str]]:
    return [[hit.passage.title for hit in hits] for hits in found]


def test_pages_come_in_the_order_of_their_index_with_one_call(fake, opened: Callable[..., Wikipedia]) -> None:
    (hits,) = opened().search(["rome italy"], 3)
    assert [(h.passage.id, h.passage.title, h.score) for h in hits] == [("7", "Rome", 1), ("3", "Italy", 1 / 2)]
    assert hits[0].passage.text == "Rome is the capital of Italy."
    assert hits[0].passage.url == ROME_URL
    (form,) = fake.calls
    assert form["action"] == "query"
    assert form["generator"] == "search"
    assert form["gsrsearch"] == "rome italy"
    assert form["gsrlimit"] == "3"
    assert form["gsrnamespace"] == "0"
    assert form["maxlag"] == "5"
    (headers,) = fake.headers
    assert headers["user-agent"].startswith("Forager/")
    assert "(someone@example.org)" in headers["user-agent"]
    assert headers["accept-encoding"] == "gzip"


def test_more_pages_than_were_asked_for_need_no_second_call(fake, opened) -> None:
    assert titles(opened().search(["rom ital"], 1)) == [["Rome"]]
    assert len(fake.calls) == 1


def test_a_query_is_asked_once_by_all_processes_of_a_workspace(fake, opened) -> None:
    first = opened()
    assert (
        titles(first.search(["rome"], 3))
        == titles(first.search(["  rome "], 3))
        == titles(opened().search(["rome"], 3))
    )
    assert len(fake.calls) == 1
    assert first.counters["cached"] == 1
    first.search(["rome"], 2)
    assert len(fake.calls) == 2


def test_that_nothing_is_found_is_kept_too(fake, opened) -> None:
    wikipedia = opened()
    assert wikipedia.search(["xyzzy"], 3) == wikipedia.search(["xyzzy"], 3) == [[]]
    assert len(fake.calls) == 1


@pytest.mark.parametrize("query", ["", "  \n", "?!", "-", "\x00"])
def test_a_query_without_words_asks_nobody(fake, opened, query: str) -> None:
    assert opened().search([query], 3) == [[]]
    assert fake.calls == []


def test_a_question_has_two_calls_and_the_third_is_refused(fake, opened) -> None:
    wikipedia = opened()
    one, other = wikipedia.session(), wikipedia.session()
    one.search(["rome"], 3)
    one.search(["italy"], 3)
    with pytest.raises(UnavailableError, match="calls") as caught:
        one.search(["empire"], 3)
    assert caught.value.spent
    assert len(fake.calls) == 2
    assert titles(one.search(["rome"], 3)) == [["Rome"]]  # what is known costs no call
    assert titles(other.search(["empire"], 3)) == [["Roman Empire"]]
    assert wikipedia.counters["spent"] == 1


def test_a_search_outside_a_session_has_the_calls_of_one_question(fake, opened) -> None:
    wikipedia = opened()
    with pytest.raises(UnavailableError) as caught:
        wikipedia.search(["rome", "italy", "empire"], 3)
    assert caught.value.spent
    assert len(fake.calls) == 2
    assert titles(wikipedia.search(["empire"], 3)) == [["Roman Empire"]]


def test_threads_of_one_question_share_its_two_calls(fake, opened) -> None:
    session = opened().session()

    def search(number: int) -> bool:
        try:
            session.search([f"rome {number}"], 3)
        except UnavailableError as error:
            return not error.spent
        return True

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(search, range(12))) == 2
    assert len(fake.calls) == 2


def test_calls_are_made_one_after_the_other_and_equal_ones_once(fake, opened) -> None:
    wikipedia = opened(seconds=20)
    queries = ["rome", "italy", "empire", "capital"] * 4
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda query: titles(wikipedia.session().search([query], 3)), queries))
    assert found == [[["Rome"]], [["Rome", "Italy"]], [["Roman Empire"]], [["Rome"]]] * 4
    assert len(fake.calls) == 4
    assert fake.most_at_a_time == 1


def test_a_continuation_is_a_second_call(fake, opened, page) -> None:
    rest = {"excontinue": 1, "continue": "||info"}
    fake.script = [
        answer({"continue": rest, "query": {"pages": [page(3, 2, extract=False), page(7, 1)]}}),
        answer({"batchcomplete": True, "query": {"pages": [page(3, 2), page(7, 1, extract=False)]}}),
    ]
    wikipedia = opened()
    session = wikipedia.session()
    assert titles(session.search(["rome italy"], 3)) == [["Rome", "Italy"]]
    assert fake.calls[1]["excontinue"] == "1"
    assert fake.calls[1]["continue"] == "||info"
    assert fake.calls[1]["gsrsearch"] == "rome italy"
    with pytest.raises(UnavailableError) as caught:
        session.search(["empire"], 3)
    assert caught.value.spent
    session.search(["rome italy"], 3)  # both halves were kept
    assert len(fake.calls) == 2


def test_a_half_whose_other_half_has_no_call_is_shown_and_not_kept(fake, opened, page) -> None:
    wikipedia = opened()
    session = wikipedia.session()
    session.search(["empire"], 3)
    half = {"continue": {"excontinue": 1}, "query": {"pages": [page(3, 2, extract=False), page(7, 1)]}}
    fake.script = [answer(half)]
    assert titles(session.search(["rome italy"], 3)) == [["Rome"]]
    assert wikipedia.counters["partial"] == 1
    assert titles(wikipedia.search(["rome italy"], 3)) == [["Rome", "Italy"]]
    assert len(fake.calls) == 3


@pytest.mark.parametrize("pages", [0, 1])
def test_what_the_search_warns_of_is_shown_and_not_kept(fake, opened, page, pages: int) -> None:
    found = {"query": {"pages": [page(7, 1)][:pages]}} if pages else {}
    warning = {"warnings": {"search": {"warnings": "The search timed out, only partial results are available."}}}
    fake.script = [answer({"batchcomplete": True, **warning, **found})]
    wikipedia = opened()
    assert titles(wikipedia.search(["rome italy"], 3)) == [["Rome"][:pages]]
    assert titles(wikipedia.search(["rome italy"], 3)) == [["Rome", "Italy"]]
    assert wikipedia.counters["partial"] == 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_pause_that_fits_is_waited_for_and_asked_once_more(fake, opened, status: int, form: str) -> None:
    # A date has whole seconds: one of 2 s ahead is at least 1 s away.
    until = "1" if form == "seconds" else format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    fake.script = [answer("slow down", status, retry_after=until)]
    wikipedia, start = opened(seconds=8), time.monotonic()
    session = wikipedia.session()
    assert titles(session.search(["rome"], 3)) == [["Rome"]]
    assert time.monotonic() - start >= 0.9
    assert len(fake.calls) == 2
    assert wikipedia.counters["busy"] == 1
    with pytest.raises(UnavailableError):
        session.search(["italy"], 3)  # the repetition counts


def test_a_pause_that_does_not_fit_holds_for_the_whole_process(fake, opened) -> None:
    fake.script = [answer("slow down", 429, retry_after="3600")]
    one, other, start = opened(seconds=2), opened(seconds=2), time.monotonic()
    with pytest.raises(UnavailableError, match="3600 s"):
        one.search(["rome"], 3)
    session = other.session()
    for _ in range(3):
        with pytest.raises(UnavailableError, match="wants no call") as caught:
            session.search(["italy"], 3)
        assert not caught.value.spent  # what was not called is not counted
    assert time.monotonic() - start < 1.5
    assert len(fake.calls) == 1
    assert other.counters["paused"] == 3


def test_a_refusal_of_the_last_call_is_not_asked_again(fake, opened) -> None:
    session = opened().session()
    session.search(["rome"], 3)
    fake.script = [answer("slow down", 429, retry_after="0")]
    with pytest.raises(UnavailableError, match="no call is left"):
        session.search(["italy"], 3)
    assert len(fake.calls) == 2


def test_a_host_that_refuses_twice_is_left_alone(fake, opened) -> None:
    fake.script = [answer("slow down", 503, retry_after="0")] * 2
    with pytest.raises(UnavailableError, match="twice"):
        opened().search(["rome"], 3)
    assert len(fake.calls) == 2


@pytest.mark.parametrize("code", ["maxlag", "ratelimited", "cirrussearch-too-busy-error"])
def test_an_error_that_passes_is_a_pause(fake, opened, code: str) -> None:
    error = {"error": {"code": code, "info": "Waiting for 10.64.0.1: 6 seconds lagged.", "lag": 6}}
    fake.script = [answer(error, retry_after="1")]
    wikipedia = opened()
    assert titles(wikipedia.search(["rome"], 3)) == [["Rome"]]
    assert wikipedia.counters["busy"] == 1
    assert len(fake.calls) == 2


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        ({"error": {"code": "cirrussearch-query-too-long", "info": "Too\nlong"}}, 200, "reply", "too-long"),
        ({"error": "broken"}, 200, "reply", "error"),
        ({}, 200, "reply", "neither complete"),
        ({"batchcomplete": "", "query": {"pages": []}}, 200, "reply", "neither complete"),
        (b"<html>", 200, "reply", "no JSON"),
        (b"[" * 100_000, 200, "reply", "no JSON"),
        ([], 200, "reply", "no object"),
        ({"batchcomplete": True, "query": {"pages": [{"pageid": "7"}]}}, 200, "reply", "pageid"),
        ({"batchcomplete": True, "query": {"pages": {"7": {}}}}, 200, "reply", "pages"),
        (b" " * (1 << 23), 200, "reply", "more than"),
        ("gone", 404, "status", "404"),
        ("forbidden", 403, "status", "403"),
        ("broken", 500, "status", "500"),
    ],
)
def test_what_is_no_answer_makes_the_search_unavailable_and_is_not_kept(
    fake, opened, caplog: pytest.LogCaptureFixture, body: Any, status: int, kind: str, words: str
) -> None:
    fake.script = [answer(body, status)]
    wikipedia = opened()
    with pytest.raises(UnavailableError, match=words) as caught:
        wikipedia.search(["rome"], 3)
    assert not caught.value.spent
    assert wikipedia.counters[kind] == 1
    assert words in caplog.text
    assert titles(wikipedia.search(["rome"], 3)) == [["Rome"]]
    assert len(fake.calls) == 2


def test_a_redirect_is_not_followed(fake, opened) -> None:
    fake.script = [answer("", 301, location="http://localhost/w/api.php")]
    with pytest.raises(UnavailableError, match="301"):
        opened().search(["rome"], 3)
    assert len(fake.calls) == 1


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def drip_head(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(300):
        handler.wfile.write(f"x-{number}: y\r\n".encode())
        time.sleep(0.05)


def drip_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    for _ in range(300):
        handler.wfile.write(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize("says", [hang, drip_head, drip_body])
def test_a_slow_host_holds_a_search_no_longer_than_its_deadline(fake, opened, says) -> None:
    fake.script = [says]
    wikipedia, start = opened(seconds=0.5), time.monotonic()
    with pytest.raises(UnavailableError, match=r"within 0\.5 s"):
        wikipedia.search(["rome"], 3)
    assert time.monotonic() - start < 2
    assert wikipedia.counters["timeout"] == wikipedia.counters["late"] == 1
    assert titles(opened().search(["rome"], 3)) == [["Rome"]]


def test_whoever_waits_for_a_turn_has_a_deadline_too(fake, opened) -> None:
    fake.script = [hang]
    patient, hasty = opened(seconds=2), opened(seconds=0.3)

    def hold() -> None:
        with pytest.raises(UnavailableError):
            patient.search(["rome"], 3)

    holding = threading.Thread(target=hold)
    holding.start()
    while not fake.calls:
        time.sleep(0.01)
    start, session = time.monotonic(), hasty.session()
    with pytest.raises(UnavailableError, match="within"):
        session.search(["italy"], 3)
    assert time.monotonic() - start < 1.5
    assert hasty.counters["calls"] == 0
    holding.join()
    assert titles(opened().session().search(["italy"], 3)) == [["Rome", "Italy"]]


def drop(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def test_a_broken_connection_is_a_call_that_failed(fake, opened) -> None:
    fake.script = [drop]
    wikipedia = opened()
    session = wikipedia.session()
    with pytest.raises(UnavailableError):
        session.search(["rome"], 3)
    assert wikipedia.counters["network"] == 1
    session.search(["rome"], 3)
    with pytest.raises(UnavailableError) as caught:
        session.search(["italy"], 3)
    assert caught.value.spent


def test_foreign_text_is_cut_and_cleaned(fake, opened, page) -> None:
    wild = {"extract": "a\x00b\ud800" + "x" * 100_000, "title": "A\x1bB", "fullurl": "javascript:alert(1)"}
    fake.script = [answer({"batchcomplete": True, "query": {"pages": [{**page(7, 1), **wild}]}})]
    (hits,) = opened().search(["rome"], 3)
    passage = hits[0].passage
    assert passage.text.startswith("a b\ufffdxxx")
    assert len(passage.text) == 20_000
    assert passage.title == "A B"
    assert passage.url is None


def test_a_page_without_a_text_is_left_out(fake, opened, page) -> None:
    pages = [{**page(7, 1), "extract": ""}, page(3, 2)]
    fake.script = [answer({"batchcomplete": True, "query": {"pages": pages}})]
    assert titles(opened().search(["rome"], 3)) == [["Italy"]]


def test_more_pages_than_a_call_brings_are_refused(opened, retrieval) -> None:
    from tasks.retrieval.wikipedia import open_wikipedia

    section = retrieval("wikipedia", topk=21, wikipedia={"contact": "a@example.org"})
    with pytest.raises(InputError, match=r"retrieval\.topk"):
        open_wikipedia(section)
    with pytest.raises(InputError, match="topk"):
        opened().search(["rome"], 21)


@pytest.mark.parametrize(
    "entry", ["{[", '[{"x": 1}]', '[{"id": "1", "rank": null, "title": 5, "url": 3, "text": {}}]', '"Rome"']
)
def test_an_entry_of_the_cache_that_is_none_costs_a_call_and_no_search(fake, opened, entry: str) -> None:
    known = opened().search(["rome"], 3)
    with contextlib.closing(sqlite3.connect(Path(os.environ[MARK]) / CACHE)) as database, database:
        database.execute("UPDATE entries SET value = ?", (entry,))
    wikipedia = opened()
    assert wikipedia.search(["rome"], 3) == known and len(fake.calls) == 2
    assert wikipedia.search(["rome"], 3) == known and len(fake.calls) == 2  # it is whole again
