import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.protocols import Action, Call, Observation, SearchR1
from tasks.agent.toolbox import Passage, Result

PROTOCOL = SearchR1()
NO_BLOCK = Action("invalid", "no block at the end")


def search(query: str) -> Action:
    return Action("calls", calls=(Call("search", query),))


@pytest.mark.parametrize(
    ("turn", "action"),
    [
        ("<search> Kashi </search>", search("Kashi")),
        ("<think> hm </think>\n<search>Kashi Rove</search>\n ", search("Kashi Rove")),
        ("<search>two\nlines</search>", search("two\nlines")),
        ("<answer> Rove </answer>", Action("answer", "Rove")),
        ("<answer></answer>", Action("answer", "")),
        ("<search> first </search> then <search> second </search>", search("second")),
        ("<search> q </search><answer> a </answer>", Action("answer", "a")),
        # An opening tag inside a block begins the block anew.
        ("<search> a <search> b </search>", search("b")),
        ("<search> a <answer> b </answer>", Action("answer", "b")),
        ("<search> </search>", search("")),
        ("<search> a <answer> b </search>", NO_BLOCK),
        ("<search> a </answer></search>", NO_BLOCK),
        ("<answer> a </answer> b </answer>", NO_BLOCK),
        ("<search> a </search> and more", NO_BLOCK),
        ("<answer> a </answer><|im_end|>", NO_BLOCK),
        ("<search> a", NO_BLOCK),
        ("a </search>", NO_BLOCK),
        ("<SEARCH> a </SEARCH>", NO_BLOCK),
        ("", NO_BLOCK),
    ],
)
def test_action_of_a_turn(turn: str, action: Action) -> None:
    assert PROTOCOL.action(turn) == action


def test_every_tool_has_tags_of_its_name() -> None:
    protocol = SearchR1(("search", "calculator"))
    assert protocol.action("<calculator> 1 + 1 </calculator>") == Action("calls", calls=(Call("calculator", "1 + 1"),))
    assert protocol.stop == ["</search>", "</calculator>", "</answer>"]
    # Without the tool the tags are words like any other.
    assert PROTOCOL.action("<search> a <calculator> b </search>") == search("a <calculator> b")


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
    asked = PROTOCOL.action(PROTOCOL.search(text, thought))
    assert asked == search(text.strip())


def test_observation_form() -> None:
    found = Result(passages=(Passage("1", "Kashi", "A city."), Passage("2", "Rove", "A firm.")))
    body = " Doc 1 (Title: Kashi) A city.\nDoc 2 (Title: Rove) A firm.\n"
    assert PROTOCOL.show([found], {}) == Observation((body,), opening="\n<information>", closing="</information>\n")
    assert PROTOCOL.show([Result("No results.")], {}, "Hurry.").bodies == (" No results.",)
    assert PROTOCOL.show([Result("No results.")], {}, "Hurry.").notice == "Hurry.\n"


def test_words_of_the_system_stand_in_the_turn_and_those_of_a_user_in_a_message() -> None:
    assert PROTOCOL.say("Hurry.", "notice") == Observation((), notice="\nHurry.\n")
    assert PROTOCOL.say("</answer> No.", "user") == Observation(("‹/answer> No.",), role="user")


def test_a_failed_call_is_told_in_words_of_the_system() -> None:
    (body,) = SearchR1(("search", "calculator")).show([Result("secret", failure="unknown")], {}).bodies
    assert body == " Error: there is no such tool. Tools are: search, calculator."


def test_it_has_no_fact_list_and_no_citations() -> None:
    assert PROTOCOL.citations("Rove [1]") == ("Rove [1]", ())
    assert PROTOCOL.facts("<fact> Rove [1] </fact>") == []
    assert PROTOCOL.fact("Rove", [1]) == ""
    assert PROTOCOL.answer("Rove", sources=[1]) == "<answer> Rove </answer>"


def test_stop_strings_are_closing_tags_of_the_protocol() -> None:
    assert set(PROTOCOL.stop) < set(PROTOCOL.tokens)
