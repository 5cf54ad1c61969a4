"""What a search asks of Wikipedia, what it may ask, and what it makes of the answer."""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.errors import InputError, UnavailableError
from tasks.processes import MARK
from tasks.retrieval.wikipedia import Wikipedia
from tasks.retrieval.wikipedia.searching import CACHE

ROME_URL = "https://en.wikipedia.org/wiki/Rome"


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


def test_more_pages_than_were_asked_for_need_no_second_call(fake, opened, titles) -> None:
    assert titles(opened().search(["rom ital"], 1)) == [["Rome"]]
    assert len(fake.calls) == 1


def test_a_query_is_asked_once_by_all_processes_of_a_workspace(fake, opened, titles) -> None:
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


def test_a_question_has_two_calls_and_the_third_is_refused(fake, opened, titles) -> None:
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


def test_a_search_outside_a_session_has_the_calls_of_one_question(fake, opened, titles) -> None:
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


def test_calls_are_made_one_after_the_other_and_equal_ones_once(fake, opened, titles) -> None:
    wikipedia = opened(seconds=20)
    queries = ["rome", "italy", "empire", "capital"] * 4
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda query: titles(wikipedia.session().search([query], 3)), queries))
    assert found == [[["Rome"]], [["Rome", "Italy"]], [["Roman Empire"]], [["Rome"]]] * 4
    assert len(fake.calls) == 4
    assert fake.most_at_a_time == 1


def test_a_continuation_is_a_second_call(fake, opened, page, answer, titles) -> None:
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


def test_a_half_whose_other_half_has_no_call_is_shown_and_not_kept(fake, opened, page, answer, titles) -> None:
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
def test_what_the_search_warns_of_is_shown_and_not_kept(fake, opened, page, pages: int, answer, titles) -> None:
    found = {"query": {"pages": [page(7, 1)][:pages]}} if pages else {}
    warning = {"warnings": {"search": {"warnings": "The search timed out, only partial results are available."}}}
    fake.script = [answer({"batchcomplete": True, **warning, **found})]
    wikipedia = opened()
    assert titles(wikipedia.search(["rome italy"], 3)) == [["Rome"][:pages]]
    assert titles(wikipedia.search(["rome italy"], 3)) == [["Rome", "Italy"]]
    assert wikipedia.counters["partial"] == 1


def test_foreign_text_is_cut_and_cleaned(fake, opened, page, answer) -> None:
    wild = {"extract": "a\x00b\ud800" + "x" * 100_000, "title": "A\x1bB", "fullurl": "javascript:alert(1)"}
    fake.script = [answer({"batchcomplete": True, "query": {"pages": [{**page(7, 1), **wild}]}})]
    (hits,) = opened().search(["rome"], 3)
    passage = hits[0].passage
    assert passage.text.startswith("a b\ufffdxxx")
    assert len(passage.text) == 20_000
    assert passage.title == "A B"
    assert passage.url is None


def test_a_page_without_a_text_is_left_out(fake, opened, page, answer, titles) -> None:
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
