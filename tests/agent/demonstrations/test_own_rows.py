from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.demonstrations.own_rows import parse, turns
from tasks.agent.protocols import SearchR1
from tasks.qa.reading import RowError

BLOCK = st.sampled_from([*SearchR1().tokens, " x ", "\n", "Ada"])


@given(st.lists(BLOCK, max_size=14).map("".join))
def test_whatever_the_tags_turns_are_read_or_refused(chosen: str) -> None:
    try:
        generated, shown = turns(chosen, SearchR1())
    except RowError:
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


VALUE = st.none() | st.floats() | st.text(max_size=3) | st.lists(st.text(max_size=3) | st.none(), max_size=3)


@given(st.dictionaries(st.sampled_from(["question", "golden_answers", "chosen", "messages", "id"]), VALUE))
def test_any_object_is_a_row_or_a_fault(content: dict) -> None:
    try:
        row, chosen = parse(content)
    except RowError:
        return
    assert row.question.strip() and all(map(str.strip, row.golden_answers)) and chosen.strip()
