import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.service.requests import (
    MOST_CHARACTERS,
    MOST_QUERIES,
    MOST_TOPK,
    Asked,
    RequestError,
    read,
    read_seconds,
)

GOOD = {"queries": ["who?"]}
LONG = "x" * (MOST_CHARACTERS + 1)


def body(**content: object) -> bytes:
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("content", "status", "detail"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "JSON"),
        (b"\xff\xfe", 400, "JSON"),
        (b'{"queries": ["\\ud800"]}', 400, "JSON"),
        (b'{"queries": ["a"], "topk": NaN}', 400, "JSON"),
        (b'{"queries": ["a"], "topk": 1e999}', 400, "JSON"),
        (b"[" * 100_000 + b"]" * 100_000, 400, "JSON"),
        (b'["a"]', 400, "object"),
        (b"null", 400, "object"),
        (body(), 400, "queries"),
        (body(queries=None), 400, "queries"),
        (body(queries=[]), 400, "queries"),
        (body(queries="who?"), 400, "queries"),
        (body(queries={"0": "who?"}), 400, "queries"),
        (body(queries=["who?", 7]), 400, "queries[1]"),
        (body(queries=["who?", None]), 400, "queries[1]"),
        (body(queries=[["who?"]]), 400, "queries[0]"),
        (body(queries=["a\0b"]), 400, "NUL"),
        (body(queries=["", " \n"]), 400, "blank"),
        (body(queries=["a", LONG]), 413, "queries[1]"),
        (body(queries=["a"] * (MOST_QUERIES + 1)), 413, "queries"),
        *((body(**GOOD, topk=topk), 400, "topk") for topk in (0, -1, 10**9, MOST_TOPK + 1, True, 3.0, 3.5, "3", [3])),
        (b'{"queries": ["a"], "topk": ' + b"9" * 400 + b"}", 400, ""),
        (body(**GOOD, return_scores="yes"), 400, "return_scores"),
        (body(**GOOD, return_scores=1), 400, "return_scores"),
        (body(**GOOD, return_scores=None), 400, "return_scores"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(content: bytes, status: int, detail: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(content, topk=3)
    assert caught.value.status == status
    assert detail in caught.value.detail and "\n" not in caught.value.detail


def test_a_request_is_read() -> None:
    assert read(body(queries=["a", ""], topk=5, return_scores=True), topk=3) == Asked(["a", ""], 5, True)
    assert read(body(queries=["a"], topk=None), topk=3) == read(body(queries=["a"]), topk=3) == Asked(["a"], 3, False)
    # Of equal keys the last counts, and unknown ones are nobody's business: other clients may send more.
    assert read(b'{"queries": [], "queries": ["a"], "model": {}}', topk=3) == Asked(["a"], 3, False)


def test_a_queue_smaller_than_a_request_is_the_limit() -> None:
    with pytest.raises(RequestError, match="at most 2 in a request"):
        read(body(queries=["a", "b", "c"]), topk=3, most=2)


leaves = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9)
keys = st.sampled_from(["queries", "topk", "x"])


@given(st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner)))
def test_whatever_comes_is_read_or_refused(content: object) -> None:
    with suppress(RequestError):
        asked = read(json.dumps(content).encode(), topk=3)
        assert asked.queries and all(isinstance(query, str) for query in asked.queries)
        assert 1 <= asked.topk <= MOST_TOPK


@given(st.binary())
def test_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(RequestError):
        read(content, topk=3)


def test_a_client_may_ask_for_less_time_and_never_gets_more() -> None:
    assert [read_seconds(text, 5.0) for text in (None, "0.25", "1e3")] == [5.0, 0.25, 5.0]
    for text in ("0", "-1", "nan", "inf", "soon", ""):
        with pytest.raises(RequestError, match="x-deadline-seconds"):
            read_seconds(text, 5.0)
