"""A host that refuses, breaks or is slow: pauses, deadlines, and searches that fail."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tasks.errors import UnavailableError


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_pause_that_fits_is_waited_for_and_asked_once_more(
    fake, opened, status: int, form: str, answer, titles
) -> None:
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


def test_a_pause_that_does_not_fit_holds_for_the_whole_process(fake, opened, answer) -> None:
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


def test_a_refusal_of_the_last_call_is_not_asked_again(fake, opened, answer) -> None:
    session = opened().session()
    session.search(["rome"], 3)
    fake.script = [answer("slow down", 429, retry_after="0")]
    with pytest.raises(UnavailableError, match="no call is left"):
        session.search(["italy"], 3)
    assert len(fake.calls) == 2


def test_a_host_that_refuses_twice_is_left_alone(fake, opened, answer) -> None:
    fake.script = [answer("slow down", 503, retry_after="0")] * 2
    with pytest.raises(UnavailableError, match="twice"):
        opened().search(["rome"], 3)
    assert len(fake.calls) == 2


@pytest.mark.parametrize("code", ["maxlag", "ratelimited", "cirrussearch-too-busy-error"])
def test_an_error_that_passes_is_a_pause(fake, opened, code: str, answer, titles) -> None:
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
    fake, opened, caplog: pytest.LogCaptureFixture, body: Any, status: int, kind: str, words: str, answer, titles
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


def test_a_redirect_is_not_followed(fake, opened, answer) -> None:
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
def test_a_slow_host_holds_a_search_no_longer_than_its_deadline(fake, opened, says, titles) -> None:
    fake.script = [says]
    wikipedia, start = opened(seconds=0.5), time.monotonic()
    with pytest.raises(UnavailableError, match=r"within 0\.5 s"):
        wikipedia.search(["rome"], 3)
    assert time.monotonic() - start < 2
    assert wikipedia.counters["timeout"] == wikipedia.counters["late"] == 1
    assert titles(opened().search(["rome"], 3)) == [["Rome"]]


def test_whoever_waits_for_a_turn_has_a_deadline_too(fake, opened, titles) -> None:
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
