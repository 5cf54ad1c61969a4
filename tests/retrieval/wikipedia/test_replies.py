import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.wikipedia.replies import MOST_PAUSE, MOST_QUERY, ReplyError, clean, pause, plain, read

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
KEYS = st.sampled_from(["query", "pages", "pageid", "index", "title", "extract", "fullurl", "continue", "error", "x"])
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=15
)
PAGES = st.fixed_dictionaries(
    {}, optional={"pageid": LEAVES, "index": LEAVES, "title": LEAVES, "extract": LEAVES, "fullurl": LEAVES}
)


def check(content: bytes) -> None:
    try:
        reply = read(content)
    except ReplyError:
        return
    for id, page in reply.pages.items():
        assert type(id) is type(page.id) is type(page.rank) is int
        for text in (page.title, page.text or "", page.url or ""):
            text.encode()  # no lone surrogate
            assert "\x00" not in text
        assert page.url is None or page.url.startswith("https://")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_an_error(content: bytes) -> None:
    check(content)


@given(JSON)
def test_any_json_is_a_reply_or_an_error(reply: Any) -> None:
    check(json.dumps(reply).encode())


@given(st.lists(PAGES, max_size=3), JSON, JSON)
def test_any_pages_are_a_reply_or_an_error(pages: list[Any], more: Any, complete: Any) -> None:
    check(json.dumps({"query": {"pages": pages}, "continue": more, "batchcomplete": complete}).encode())


def test_numbers_that_are_truth_values_are_no_numbers() -> None:
    page = {"pageid": True, "index": 1, "title": "Rome"}
    with pytest.raises(ReplyError, match="pageid"):
        read(json.dumps({"query": {"pages": [page]}}).encode())


@given(st.text(max_size=2000))
def test_a_query_is_one_short_line_without_operators(query: str) -> None:
    said = plain(query)
    assert len(said) <= MOST_QUERY
    assert said == " ".join(said.split())
    assert not set(said) & set(":/\\*?~\n\x00")
    assert not any(word[0] in "-!+" for word in said.split())
    assert plain(said) == said


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Who wrote Dune?", "Who wrote Dune"),
        ("Star Trek: Deep Space Nine", "Star Trek Deep Space Nine"),
        ("insource:/a.*b/ -cats User:Jimbo", "insource a. b cats User Jimbo"),
        ("Jean-Luc  Picard\n", "Jean-Luc Picard"),
        ('"Alan Turing" born', '"Alan Turing" born'),
        ("a" * 400, "a" * 300),
        ("ab " * 150, ("ab " * 100).strip()),
    ],
)
def test_a_query_by_example(query: str, expected: str) -> None:
    assert plain(query) == expected


def test_control_characters_and_halves_of_characters_go() -> None:
    assert clean("a\tb\nc\rd\x00e\x9ff\ud800g") == "a\tb\nc d e f\ufffdg"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("9" * 5000, MOST_PAUSE),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30),
        ("Fri, 02 Jan 2026 03:04:35 -0000", 30),
        ("Thu, 01 Jan 2026 00:00:00 GMT", 0),
        ("Fri, 02 Jan 2099 03:04:35 GMT", MOST_PAUSE),
        (None, 5),
        ("", 5),
        ("soon", 5),
        ("-3", 5),
        ("1.5", 5),
        ("²", 5),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, expected: float) -> None:
    assert pause(value, 5, NOW) == expected


@given(st.text(max_size=50))
def test_any_retry_after_is_a_pause_of_at_most_a_day(value: str) -> None:
    assert 0 <= pause(value, 5) <= MOST_PAUSE
