"""What is tried again, when, and what the breaker makes of it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tasks.retrieval.client import breaker


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_search_that_failed_on_the_way_is_tried_again(serve: Any, status: int, client: Any, after: Any) -> None:
    server = serve(after("close", lambda handler: handler.say(status, b"busy"), "half"))
    one = client(server, 5.0)
    assert one.search(["a"], 3)[0][0].passage.text == "a"
    assert one.counters == {"searches": 1, "retries": 3} and len(server.seen) == 4


@pytest.mark.parametrize("status", [400, 401, 404, 405, 413, 415, 422, 429])
def test_what_the_server_refuses_is_not_tried_again(serve: Any, status: int, client: Any, failure: Any) -> None:
    server = serve(lambda handler: handler.say(status, {"detail": "queries:\nno strings"}))
    one = client(server)
    for _ in range(2 * breaker.FAILURES):  # the server is well: it is asked every time
        error = failure(one)
        assert error.kind == "refused" and str(error).endswith(f"{status} queries: no strings")
    assert one.counters["retries"] == 0 and len(server.seen) == 2 * breaker.FAILURES


def test_a_last_try_that_runs_out_of_time_does_not_hide_why_there_were_others(
    serve: Any, client: Any, failure: Any, after: Any
) -> None:
    one = client(serve(after(lambda handler: handler.say(503, {"detail": "full"}), then="never")))
    error = failure(one)
    assert error.kind == "busy" and str(error).endswith(" is busy: full")
    assert one.counters == {"searches": 1, "retries": 1, "failures/busy": 1}


@pytest.mark.parametrize("form", ["number", "date"])
def test_a_server_that_names_a_time_is_left_alone_for_so_long(serve: Any, form: str, client: Any) -> None:
    times: list[float] = []

    def busy(handler: Any) -> None:
        times.append(time.monotonic())
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)  # whole seconds: 1 to 2 from now
        handler.say(503, b"", retry_after="1" if form == "number" else later)

    def free(handler: Any) -> None:
        times.append(time.monotonic())
        handler.found()

    acts = iter([busy, free])
    client(serve(lambda handler: next(acts)(handler)), 10.0).search(["a"], 3)
    assert times[1] - times[0] >= 0.95


def test_a_time_beyond_the_search_is_not_waited_for(serve: Any, client: Any, failure: Any) -> None:
    one = client(serve(lambda handler: handler.say(503, b"", retry_after="9")), 8.0)
    assert failure(one, 0.0).kind == "busy"


@pytest.mark.parametrize("value", ["", "soon", "-5", "1e3", "٣", "Mon, 30 Nov 1999 20:18:08"])
def test_a_time_that_is_none_is_none(serve: Any, value: str, client: Any, after: Any) -> None:
    server = serve(after(lambda handler: handler.say(503, b"", retry_after=value.encode().decode("latin-1"))))
    assert client(server, 5.0).search(["a"], 3) and len(server.seen) == 2


def test_a_server_that_fails_again_and_again_is_left_alone_and_then_tried_by_one(
    serve: Any, monkeypatch: pytest.MonkeyPatch, client: Any, failure: Any, timed: Any
) -> None:
    monkeypatch.setattr(breaker, "PAUSE", 0.3)
    well = threading.Event()
    asked, go = threading.Event(), threading.Event()

    def act(handler: Any) -> None:
        if not well.is_set():
            return handler.say(500, b"")
        asked.set()
        go.wait(10)
        return handler.found()

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


def test_failures_that_are_not_in_a_row_do_not_count(serve: Any, client: Any, failure: Any) -> None:
    turn = iter(range(1000))
    server = serve(lambda handler: handler.found() if next(turn) % breaker.FAILURES == 0 else handler.say(500, b""))
    one = client(server)
    for _ in range(3):
        assert one.search(["a"], 3)
        for _ in range(breaker.FAILURES - 1):
            assert failure(one).kind == "nonsense"
    assert one.counters["openings"] == 0


def test_many_that_fail_at_once_open_it_once(serve: Any, client: Any, failure: Any) -> None:
    together = threading.Barrier(3 * breaker.FAILURES)

    def act(handler: Any) -> None:
        together.wait(10)
        handler.say(500, b"")

    one = client(serve(act), 10.0)
    with ThreadPoolExecutor(3 * breaker.FAILURES) as pool:
        kinds = list(pool.map(lambda _: failure(one, 10.0).kind, range(3 * breaker.FAILURES)))
    assert kinds == ["nonsense"] * 3 * breaker.FAILURES and one.counters["openings"] == 1
