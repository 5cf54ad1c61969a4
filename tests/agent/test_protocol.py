import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.protocol import PROTOCOLS, Action, SearchR1
from tasks.retrieval import Passage

PROTOCOL = SearchR1()
INVALID = Action("invalid")


@pytest.mark.parametrize(
    ("turn", "action"),
    [
        ("<search> Kashi </search>", Action("search", "Kashi")),
        ("<think> hm </think>\n<search>Kashi Rove</search>\n ", Action("search", "Kashi Rove")),
        ("<search>two\nlines</search>", Action("search", "two\nlines")),
        ("<answer> Rove </answer>", Action("answer", "Rove")),
        ("<answer></answer>", Action("answer", "")),
        ("<search> first </search> then <search> second </search>", Action("search", "second")),
        ("<search> q </search><answer> a </answer>", Action("answer", "a")),
        # An opening tag inside a block begins the block anew.
        ("<search> a <search> b </search>", Action("search", "b")),
        ("<search> a <answer> b </answer>", Action("answer", "b")),
        ("<search> </search>", INVALID),
        ("<search> a <answer> b </search>", INVALID),
        ("<search> a </answer></search>", INVALID),
        ("<answer> a </answer> b </answer>", INVALID),
        ("<search> a </search> and more", INVALID),
        ("<answer> a </answer><|im_end|>", INVALID),
        ("<search> a", INVALID),
        ("a </search>", INVALID),
        ("<SEARCH> a </SEARCH>", INVALID),
        ("", INVALID),
    ],
)
def test_action_of_a_turn(turn: str, action: Action) -> None:
    assert PROTOCOL.action(turn) == action


def test_answers_are_all_blocks_in_order() -> None:
    assert PROTOCOL.answers("<answer> a </answer> <search> q </search> <answer>b</answer>") == ["a", "b"]
    assert PROTOCOL.answers("<answer> a <answer> b </answer>") == ["b"]
    assert PROTOCOL.answers("<answer> a") == []


def test_no_answer_reaches_from_one_turn_into_the_next() -> None:
    # Without this, a policy would earn the format reward with a last turn that is no answer.
    assert PROTOCOL.answers("<answer> x <search> q </search>" + "y </answer>") == []


PIECES = st.lists(st.sampled_from([*PROTOCOL.tokens, " ", "a", "\n"]), max_size=12).map("".join)


@given(PIECES)
def test_an_answering_turn_is_scored_by_the_text_it_ends_with(turn: str) -> None:
    action = PROTOCOL.action(turn)
    if action.kind == "answer":
        assert PROTOCOL.answers(turn)[-1] == action.text


PLAIN = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=30)


@given(PLAIN, st.none() | PLAIN)
def test_turns_are_read_as_they_are_written(text: str, thought: str | None) -> None:
    assert PROTOCOL.answers(PROTOCOL.answer(text, thought)) == [text.strip()]
    assert PROTOCOL.action(PROTOCOL.answer(text, thought)) == Action("answer", text.strip())
    search = PROTOCOL.action(PROTOCOL.search(text, thought))
    assert search == (Action("search", text.strip()) if text.strip() else INVALID)


SPACE = st.text(" \t\n\u00a0\u2003", max_size=2)


@st.composite
def marks(draw: st.DrawFn) -> str:
    """A tag in any casing, with blanks anywhere a lenient reader would skip them."""
    name = "".join(draw(st.sampled_from((c.lower(), c.upper()))) for c in draw(st.sampled_from(PROTOCOL.tags)))
    slash = draw(st.sampled_from(("", "/")))
    return f"<{draw(SPACE)}{slash}{draw(SPACE)}{name}{draw(SPACE)}>"


FOREIGN = st.lists(marks() | st.text(max_size=5) | st.sampled_from(("<", "</", "<|im_end|>", "search>")), max_size=8)
LENIENT = re.compile(r"<\s*/?\s*(think|search|information|answer)\s*>", re.IGNORECASE)


@given(FOREIGN.map("".join))
def test_neutralised_text_opens_and_closes_nothing(text: str) -> None:
    safe = PROTOCOL.neutralise(text)
    assert not LENIENT.search(safe)
    assert "<|" not in safe
    assert len(safe) == len(text)
    assert safe.replace("‹", "<") == text.replace("‹", "<")
    assert PROTOCOL.neutralise(safe) == safe


@given(FOREIGN.map("".join), FOREIGN.map("".join))
def test_observation_holds_its_own_two_tags_alone(title: str, text: str) -> None:
    shown = "".join(PROTOCOL.observation([Passage("1", title, text)]))
    assert [match[0] for match in LENIENT.finditer(shown)] == ["<information>", "</information>"]


def test_what_is_no_tag_stays() -> None:
    text = "1 < 2, <b>bold</b>, <searching> and a<answers"
    assert PROTOCOL.neutralise(text) == text


def test_observation_form() -> None:
    passages = [Passage("1", "Kashi", "A city."), Passage("2", "Rove", "A firm.")]
    body = " Doc 1 (Title: Kashi) A city.\nDoc 2 (Title: Rove) A firm.\n"
    assert PROTOCOL.observation(passages) == ("\n<information>", body, "</information>\n")
    assert PROTOCOL.observation([])[1] == " No results."


def test_stop_strings_are_closing_tags_of_the_protocol() -> None:
    assert set(PROTOCOL.stop) < set(PROTOCOL.tokens)
    assert all(name == protocol.name for name, protocol in PROTOCOLS.items())
