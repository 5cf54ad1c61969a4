"""Passages inside a budget: whole sentences, room for each, and no way out of the observation."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.agent.chat import Chat
from tasks.agent.fitting import SHORTEST, end_before, fit, shares, shown
from tasks.agent.protocols import PROTOCOLS, create
from tasks.agent.toolbox import Passage, Result

ALL = [create(name, ("search",)) for name in PROTOCOLS]
every = pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.name)
SENTENCE = st.sampled_from(
    [
        "Kashi was born in Rove. ",
        "Dr. Teno lives in the U.S. today. ",
        "It rains! ",
        "Why? ",
        "3.5 million.\n",
        "東京は首都。",
    ]
)
TAGS = sorted({tag for protocol in ALL for tag in protocol.tags})
PIECE = st.sampled_from(
    [*(mark for protocol in ALL for mark in protocol.tokens), "<|im_end|>", "<|im_start|>", "<|endoftext|>", "</s>",
     "<searching>", "< / answers", "‹search>", "<sea", "<", "</", "|>", "[1] (Title: T) ", "[12", "\n", "a ", "<think"]
)  # fmt: skip
HOSTILE = st.lists(PIECE | st.text(max_size=4), max_size=12).map("".join)
TEXT = st.lists(SENTENCE | st.text(max_size=8), max_size=8).map("".join) | HOSTILE


@pytest.fixture(scope="session", params=["tokenizer", "qwen_tokenizer", "lacking_tokenizer"])
def chat(request: pytest.FixtureRequest) -> Chat:
    return Chat(request.getfixturevalue(request.param))


def tokens(chat: Chat, text: str) -> int:
    return len(chat.tokenizer.encode(text, add_special_tokens=False))


# Where a text is cut


@pytest.mark.parametrize(
    ("text", "end", "expected"),
    [
        ("One. Two. Three.", 16, "One. Two. Three."),
        ("One. Two. Three.", 8, "One."),
        ("One. Two. Three.", 9, "One. Two."),
        ("Really?! \"Yes,\" he said. 'So.' Then", 31, "Really?! \"Yes,\" he said. 'So.'"),
        ("He met Dr. Smith and J. R. Ewing in the U.S. Senate.", 51, "He met Dr. Smith and J. R. Ewing in the U.S."),
        ("It cost 3.5 million e.g. here. More", 33, "It cost 3.5 million e.g. here."),
        ("He came at 5 p.m. on Monday, No. 7 of 9", 30, "He came at 5 p.m. on Monday,"),
        ("A line\nand another", 15, "A line"),
        ("東京は首都。大きい。人が多い", 12, "東京は首都。大きい。"),
        ("no end at all here", 12, "no end at"),
        ("no end at all here", 13, "no end at all"),
        ("undivided", 4, "undi"),
        ("  undivided", 5, "  und"),
        ("", 0, ""),
        ("One.  ", 2, "On"),
    ],
)  # fmt: skip
def test_where_a_text_is_cut(text: str, end: int, expected: str) -> None:
    assert text[: end_before(text, end)] == expected


@given(text=TEXT, data=st.data())
def test_a_cut_is_never_beyond_what_is_allowed(text: str, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(text)))
    assert 0 <= end_before(text, end) <= end


def test_a_long_text_is_read_in_linear_time() -> None:
    # Each of these makes a careless pattern quadratic: minutes, where this takes a second at most.
    for unit in (".", "?!", ". ", ".'", "'", " ", "\n", "。", "。”", "a. ", "A. ", ".(", "( ", "undivided"):
        text = unit * (200_000 // len(unit))
        for whole in (text, f"A.{text}", f"{text}x"):
            assert 0 <= end_before(whole, 190_000) <= 190_000


@every
def test_a_flood_of_passages_with_long_titles_is_cut_too(tokenizer: Any, protocol: Any) -> None:
    chat = Chat(tokenizer)
    results = [Result(passages=tuple(Passage(str(n), "T" * 250, "x. " * 9) for n in range(256)))]
    assert len(chat.observation_ids(seen_of(chat, protocol, results, 96)[0], 96, turn_ended=True)) <= 96


# Sharing


@given(lengths=st.lists(st.integers(0, 50), max_size=6), room=st.integers(0, 200))
def test_shares_are_even_and_waste_nothing(lengths: list[int], room: int) -> None:
    rooms = shares(lengths, room)
    assert all(0 <= share <= length for share, length in zip(rooms, lengths, strict=True))
    assert sum(rooms) == min(room, sum(lengths))
    cut = [share for share, length in zip(rooms, lengths, strict=True) if share < length]
    assert not cut or max(rooms) <= min(cut) + 1  # nobody has more than those that are cut


@given(texts=st.lists(TEXT, max_size=4), room=st.integers(0, 120))
def test_texts_are_beginnings_inside_the_room(chat: Chat, texts: list[str], room: int) -> None:
    fitted = fit(texts, room, chat)
    plain = [chat.foreign(text, room)[0] for text in texts]
    assert len(fitted) == len(texts)
    assert sum(len(chat.foreign(one, room)[1]) for one in fitted) <= room
    assert all(whole.startswith(one) for whole, one in zip(plain, fitted, strict=True))


@given(texts=st.lists(st.lists(SENTENCE, min_size=1, max_size=9), min_size=1, max_size=4), each=st.integers(8, 40))
def test_each_ends_with_a_sentence_where_its_first_one_fits(chat: Chat, texts: list[list[str]], each: int) -> None:
    fitted = fit(["".join(sentences) for sentences in texts], each * len(texts), chat)
    for sentences, one in zip(texts, fitted, strict=True):
        ends = {"".join(sentences[:n]).strip() for n in range(1, len(sentences) + 1)}
        assert one and (one.strip() in ends or tokens(chat, sentences[0].strip()) > each)


def test_what_a_sentences_end_leaves_goes_to_the_next(tokenizer: Any) -> None:
    chat = Chat(tokenizer)
    first, second = "Kashi was born in Rove. " + "Word " * 40 + "end. Then", "Rove is a city. " * 8
    room = 2 * tokens(chat, "Kashi was born in Rove.") + 2 * tokens(chat, " Rove is a city.")
    one, two = fit([first, second], room, chat)
    assert one == "Kashi was born in Rove." and two.count("Rove is a city.") > room // 2 // tokens(chat, second[:16])


# Observations


def seen_of(chat: Chat, protocol: Any, results: list[Result], limit: int) -> Any:
    seen = shown(results, {}, "", protocol=protocol, chat=chat, limit=limit, turn_ended=True)
    return seen, chat.pieces(seen, limit, turn_ended=True)


@every
def test_what_fits_is_shown_as_it_is(chat: Chat, protocol: Any) -> None:
    results = [Result(passages=tuple(Passage(f"p{n}", "Kashi", "Kashi was born. In Rove") for n in range(3)))]
    numbers: dict[str, int] = {}
    whole = protocol.show(results, {}, "Hurry.")
    limit = chat.length(whole, 1000, turn_ended=True)
    found = shown(results, numbers, "Hurry.", protocol=protocol, chat=chat, limit=limit, turn_ended=True)
    assert found == replace(whole, passage_ids=("p0", "p1", "p2"))
    assert len(numbers) == (3 if protocol.cites else 0)
    less = shown(results, {}, "Hurry.", protocol=protocol, chat=chat, limit=limit - 1, turn_ended=True)
    assert less != whole and "".join(less.bodies).count("Kashi was born.") == 3


@every
def test_all_passages_are_shown_where_there_is_room(chat: Chat, protocol: Any) -> None:
    long = "Kashi was born in Rove. " * 30
    results = [
        Result(passages=(Passage("a", "One", long), Passage("b", "Two", "It rains."), Passage("c", "Three", long)))
    ]
    seen, pieces = seen_of(chat, protocol, results, 150)
    text = "".join(seen.bodies)
    assert "It rains." in text and text.count("Kashi was born in Rove.") >= 2
    assert [text.index(f"Title: {title})") for title in ("One", "Two", "Three")]
    ends = [line.rstrip() for line in text.strip().split("\n")]
    assert len(ends) == 3 and all(line.endswith(".") for line in ends)
    assert all("".join(pieces).count(line) for line in ends)  # and Chat has cut nothing


@every
def test_where_there_is_not_room_for_all_the_best_are_shown(tokenizer: Any, protocol: Any) -> None:
    chat = Chat(tokenizer)
    results = [Result(passages=tuple(Passage(str(n), f"Kashi {n}", "Kashi was born in Rove. " * 9) for n in range(40)))]
    numbers: dict[str, int] = {}
    seen = shown(results, numbers, "", protocol=protocol, chat=chat, limit=120, turn_ended=True)
    text = "".join(seen.bodies)
    titles = re.findall(r"Title: Kashi (\d+)\) (.*)", text)
    assert 2 <= len(titles) < 20 and [int(n) for n, _ in titles] == list(range(len(titles)))
    assert all(tokens(chat, one) >= SHORTEST - 3 for _, one in titles)
    assert list(numbers.values()) == [n + 1 for n in range(len(titles))] * protocol.cites
    assert chat.length(seen, 120, turn_ended=True) <= 120


@every
def test_a_long_title_leaves_room_for_the_others(tokenizer: Any, protocol: Any) -> None:
    chat = Chat(tokenizer)
    passages = (Passage("a", "title " * 5000, "Rove is a city."), Passage("b", "Teno", "Teno is a firm."))
    _, pieces = seen_of(chat, protocol, [Result(passages=passages)], 120)
    text = "".join(pieces)
    assert "Rove is a city." in text and "(Title: Teno) Teno is a firm." in text


@every
@settings(max_examples=60)
@given(
    texts=st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), min_size=1, max_size=4),
    plain=st.none() | HOSTILE,
    limit=st.integers(1, 160),
    ended=st.booleans(),
)
def test_nothing_breaks_out_wherever_it_is_cut(chat, protocol, texts, plain, limit, ended) -> None:
    results = [Result(passages=tuple(Passage(*one) for one in texts)), *[Result(plain or "")] * (plain is not None)]
    seen = shown(results, {}, "", protocol=protocol, chat=chat, limit=limit, turn_ended=ended)
    empty = type(seen)(("",) * len(seen.bodies), seen.role, seen.opening, seen.closing, seen.notice)
    around = "".join(chat.pieces(empty, limit, turn_ended=ended))
    said = "".join(chat.pieces(seen, limit, turn_ended=ended))
    assert len(chat.observation_ids(seen, limit, turn_ended=ended)) <= max(
        limit, chat.length(empty, limit, turn_ended=ended)
    )
    tag = re.compile(rf"<\s*/?\s*(?:{'|'.join(protocol.tags)})(?:\s*[=>\s]|\Z)", re.IGNORECASE)
    assert tag.findall(said) == tag.findall(around)
    for mark in (*protocol.tokens, *map(str, chat.tokenizer.added_tokens_decoder.values())):
        assert said.count(mark) == around.count(mark)
    assert protocol.answers(said) == protocol.answers(around)
    assert len(protocol.numbered(said)) <= len(texts)


@every
@pytest.mark.parametrize("limit", [60, 90, 150, 400])
def test_it_names_the_passages_that_it_still_holds(chat: Chat, protocol: Any, limit: int) -> None:
    words = "Kashi was born in Rove. " * 8
    results = [Result(passages=tuple(Passage(f"p{n}", f"Place {n}", words) for n in range(6)))]
    found = shown(results, {}, "", protocol=protocol, chat=chat, limit=limit, turn_ended=True)
    text = "".join(found.bodies)
    assert found.passage_ids == tuple(f"p{n}" for n in range(6) if f"Place {n}" in text) != ()
