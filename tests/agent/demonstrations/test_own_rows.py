import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.demonstrations.own_rows import FaultyError, parse, turns
from tasks.agent.protocol import SearchR1

BLOCK = st.sampled_from([*SearchR1().tokens, " x ", "\n", "Ada"])


@given(st.lists(BLOCK, max_size=14).map("".join))
def test_whatever_the_tags_turns_are_read_or_refused(chosen: str) -> None:
    try:
        generated, shown = turns(chosen, SearchR1())
    except FaultyError:
        return
    assert len(generated) == len(shown) + 1
    information = [f"<information>{text}</information>" for text in shown]
    rejoined = "".join(a + b for a, b in zip(generated, [*information, ""], strict=True))
    assert "".join(rejoined.split()) == "".join(chosen.split())


WORDS = st.text(st.characters(exclude_characters="<>"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(st.none() | WORDS, WORDS, WORDS), max_size=4), WORDS)
def test_every_whole_episode_is_read_turn_by_turn(searches: list[tuple[str | None, str, str]], answer: str) -> None:
    protocol = SearchR1()
    searched = [protocol.search(query, thought) for thought, query, _ in searches]
    seen = [f"\n<information>{text}</information>\n" for _, _, text in searches]
    chosen = "".join(a + b for a, b in zip(searched, seen, strict=True)) + protocol.answer(answer)
    assert turns(chosen, protocol) == ([*searched, protocol.answer(answer)], [text for _, _, text in searches])


@given(
    st.one_of(
        st.binary(max_size=40),
        st.recursive(st.none() | st.floats() | st.text(max_size=3), st.lists).map(
            lambda value: json.dumps({"question": value, "golden_answers": value, "chosen": value}).encode()
        ),
    )
)
def test_any_line_is_a_row_or_a_fault(line: bytes) -> None:
    with pytest.raises(FaultyError):
        parse(line)
