import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.report import excerpts
from tasks.evaluation.report.excerpts import Piece


def test_headings_of_supporting_passages_are_marked_and_golden_answers_beside_them() -> None:
    text = "Doc 1 (Title: Bath (city)) In Bath.\nDoc 2 (Title: Bath) no\n[3] (Title: bath (city)) yes"
    pieces = excerpts.observed_pieces(text, ["Bath"], ["Bath (city)"])
    assert [(piece.part, piece.text) for piece in pieces if piece.part != "plain"] == [
        ("support", "Doc 1 (Title: Bath (city))"), ("gold", "Bath"), ("gold", "Bath"),
        ("support", "[3] (Title: bath (city))"),
    ]  # fmt: skip
    assert "".join(piece.text for piece in pieces) == text


@given(st.lists(st.sampled_from(["<think>", "</think>", "<search>", "</search>", "<a>", "x", "\n"]), max_size=12))
def test_blocks_are_those_that_a_pattern_finds(parts: list[str]) -> None:
    text = "".join(parts).strip()
    blocks = re.findall(r"(<(think|search)>.*?</\2>)", text, flags=re.DOTALL)
    pieces = excerpts.generated_pieces(text)
    assert [piece.text for piece in pieces if piece.part != "plain"] == [block for block, _ in blocks]
    assert "".join(piece.text for piece in pieces) == text


def test_tags_that_are_never_closed_take_no_time_of_their_own() -> None:
    text = "<think><search>" * 50_000  # a quarter of an hour, were each followed to the end
    assert excerpts.generated_pieces(text) == [excerpts.Piece("plain", text)]


def test_a_segment_loses_its_middle_and_says_how_much() -> None:
    pieces = [Piece("plain", "abcdef"), Piece("gold", "ghi"), Piece("plain", "jklmno")]
    assert excerpts.shorten(pieces, 15) == pieces
    assert excerpts.shorten(pieces, 12) == [
        Piece("plain", "abcdef"), Piece("gold", "gh"), Piece("cut", " [3 characters left out] "),
        Piece("plain", "lmno"),
    ]  # fmt: skip


@given(st.lists(st.text(min_size=1, max_size=9), max_size=9), st.integers(min_value=1, max_value=40))
def test_what_is_kept_is_the_start_and_the_end(texts: list[str], limit: int) -> None:
    whole = "".join(texts)
    kept = excerpts.shorten([Piece("plain", text) for text in texts], limit)
    cut = [n for n, piece in enumerate(kept) if piece.part == "cut"]
    if len(whole) <= limit:
        assert not cut and "".join(piece.text for piece in kept) == whole
    else:
        head, tail = ("".join(piece.text for piece in part) for part in (kept[: cut[0]], kept[cut[0] + 1 :]))
        assert len(head) + len(tail) == limit and whole.startswith(head) and whole.endswith(tail)


@pytest.mark.parametrize(
    ("asked", "queries", "passages", "expected"),
    [
        ([("search", "Ada", None)], ["Ada"], [["p", "q"]], [["p", "q"]]),
        # What failed and what is no search brought nothing.
        ([("search", "Ada", "timeout"), ("sum", "1", None), ("search", "Ada", None)], ["Ada"], [["p"]],
         [None, None, ["p"]]),
        ([("search", '{"query": "Ada", "topk": 2}', None)], ["Ada"], [["p"]], [["p"]]),
        # A tool of one's own that brought passages, with arguments of its own.
        ([("look", '{"page": 7}', None)], ['{"page": 7}'], [["p"]], [["p"]]),
        ([("search", "7", None), ("search", "7", None)], ["7", "7"], [["p"], []], [["p"], []]),
    ],
)  # fmt: skip
def test_calls_say_what_they_brought(asked, queries, passages, expected) -> None:
    row = {
        "queries": queries,
        "passage_ids": json.dumps(passages),
        "calls": json.dumps([{"tool": t, "arguments": a, "seconds": 0.1, "failure": f} for t, a, f in asked]),
    }
    assert [call["passages"] for call in excerpts.calls(row)] == expected
