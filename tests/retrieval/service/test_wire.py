import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.service.wire import (
    LENGTH,
    CrossedError,
    dump_batch,
    dump_reply,
    group,
    load_batch,
    load_reply,
)

items = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=20), st.integers(1, 100), st.booleans()), max_size=8
)
states = st.sampled_from(["found", "unavailable", "failed"])


def cut(frame: bytes) -> bytes:
    assert LENGTH.unpack_from(frame) == (len(frame) - LENGTH.size,)
    return frame[LENGTH.size :]


@given(items, st.integers(0, 2**63), st.data())
def test_a_batch_and_its_reply_arrive_as_they_were(items: list, number: int, data: st.DataObject) -> None:
    got, groups = load_batch(cut(dump_batch(number, items)))
    assert got == number
    assert [(query, topk, scores) for topk, scores, queries in groups for query in queries] == items
    answers = [data.draw(st.tuples(states, st.binary(max_size=30))) for _ in items]
    assert load_reply(cut(dump_reply(number, groups, answers)), number, items) == answers


ITEMS = [("a", 3, False), ("b", 3, False)]
ANSWERS = [("found", b"[1]"), ("found", b"[2]")]


@pytest.mark.parametrize(
    ("number", "asked"),
    [
        (8, ITEMS),
        (7, ITEMS[::-1]),
        (7, ITEMS[:1]),
        (7, [*ITEMS, ("c", 3, False)]),
        (7, [("a", 3, False), ("b", 4, False)]),
        (7, [("a", 3, False), ("b", 3, True)]),
    ],
)
def test_a_reply_to_something_else_is_found_out(number: int, asked: list) -> None:
    reply = cut(dump_reply(7, group(ITEMS), ANSWERS))
    with pytest.raises(CrossedError):
        load_reply(reply, number, asked)


@given(st.integers(0, 40), st.binary(max_size=3))
def test_a_reply_of_another_length_is_found_out(kept: int, more: bytes) -> None:
    reply = cut(dump_reply(7, group(ITEMS), ANSWERS))
    changed = reply[:kept] + more
    if len(changed) != len(reply):
        with pytest.raises(CrossedError):
            load_reply(changed, 7, ITEMS)
