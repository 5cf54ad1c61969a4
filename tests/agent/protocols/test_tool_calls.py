"""hermes and qwen3_coder: what they share, and how each writes a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.protocols import Action, Call, Hermes, Observation, Qwen3Coder
from tasks.agent.toolbox import Passage, Result

HERMES, CODER = Hermes(), Qwen3Coder()
both = pytest.mark.parametrize("protocol", [HERMES, CODER], ids=lambda protocol: protocol.name)


def calls(*queries: str) -> Action:
    return Action("calls", calls=tuple(Call("search", arguments={"query": query}) for query in queries))


def test_a_turn_of_hermes() -> None:
    turn = '<think> hm </think>\n<tool_call>\n{"name": "search", "arguments": {"query": "Kashi é"}}\n</tool_call>'
    assert HERMES.search("Kashi é", "hm") == turn
    assert HERMES.action(turn) == calls("Kashi é")


def test_a_turn_of_qwen3_coder() -> None:
    turn = "<tool_call>\n<function=search>\n<parameter=query>\nKashi é\n</parameter>\n</function>\n</tool_call>"
    assert CODER.search("Kashi é") == turn
    assert CODER.action(turn) == calls("Kashi é")


def test_arguments_keep_their_types_in_hermes_and_are_text_in_qwen3_coder() -> None:
    turn = '<tool_call>{"arguments": {"a": [1, {"b": null}], "c": "3"}, "name": "look_up"}</tool_call>'
    (call,) = HERMES.action(turn).calls
    assert call == Call("look_up", arguments={"a": [1, {"b": None}], "c": "3"})
    turn = (
        "<tool_call><function=look_up><parameter=a>\n[1, null]\n</parameter><parameter=c>3</parameter>"
        "<parameter=d>\n\n two\nlines \n\n</parameter></function></tool_call>"
    )
    (call,) = CODER.action(turn).calls
    # One line break at each end belongs to the tags, all others to the value.
    assert call == Call("look_up", arguments={"a": "[1, null]", "c": "3", "d": "\n two\nlines \n"})


def test_a_call_without_arguments() -> None:
    assert HERMES.action('<tool_call>{"name": "now", "arguments": {}}</tool_call>').calls[0].arguments == {}
    assert CODER.action("<tool_call>\n<function=now>\n</function>\n</tool_call>").calls[0].arguments == {}


@both
def test_one_turn_may_call_several_tools_and_say_something_around_them(protocol) -> None:
    turn = f"Both. {protocol.search('Kashi')}\nand {protocol.search('Rove')} will tell."
    assert protocol.action(turn) == calls("Kashi", "Rove")


@both
def test_the_answer_of_a_turn_without_calls_is_its_last_block(protocol) -> None:
    assert protocol.action("<answer> a </answer> no: <answer> b </answer> I think.") == Action("answer", "b")
    assert protocol.action("<answer></answer>") == Action("answer", "")


@both
def test_calls_go_before_an_answer_which_still_counts_as_a_block(protocol) -> None:
    turn = f"<answer> guess </answer>{protocol.search('Kashi')}"
    assert protocol.action(turn) == calls("Kashi")
    assert protocol.answers(turn) == ["guess"]


@both
def test_an_answer_inside_a_call_is_none(protocol) -> None:
    turn = protocol.search("<answer> Rove </answer>")
    assert protocol.action(turn) == calls("<answer> Rove </answer>")
    assert protocol.answers(turn) == []
    # Nor does one reach over a call, or from one turn into the next.
    assert protocol.answers(f"<answer> a {protocol.search('q')} b </answer>") == []


@both
def test_a_call_that_is_never_closed_hides_what_follows_it(protocol) -> None:
    opened = protocol.search("<answer> Rove </answer>").removesuffix("</tool_call>")
    assert protocol.answers(opened) == protocol.answers(f"{opened}{protocol.search('Kashi')}") == []
    assert protocol.answers(f"<answer> a </answer>{opened}") == ["a"]
    assert protocol.answers("<tool_call> <answer> a </answer> <tool_call> x </tool_call> <answer> b </answer>") == []


NEITHER = "neither a tool call nor an answer"
OPEN = "a tool call that is not closed, or not opened"


@both
@pytest.mark.parametrize(
    ("turn", "why"),
    [
        ("", NEITHER),
        ("It is Rove.", NEITHER),
        ("<answer> Rove", NEITHER),
        ("<ANSWER> Rove </ANSWER>", NEITHER),
        ("<search> Kashi </search>", NEITHER),
        ("<tool_call>", OPEN),
        ("</tool_call> <answer> Rove </answer>", OPEN),
    ],
)
def test_a_turn_that_asks_for_nothing_valid_says_why(protocol, turn: str, why: str) -> None:
    assert protocol.action(turn) == Action("invalid", why)


@both
def test_one_bad_call_spoils_the_turn(protocol) -> None:
    good = protocol.search("Kashi")
    assert protocol.action(f"{good}<tool_call>?</tool_call>").kind == "invalid"
    assert protocol.action(f"{good}{good.removesuffix('</tool_call>')}") == Action("invalid", OPEN)
    assert protocol.action(f"<tool_call>{good}") == Action("invalid", OPEN)


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("", "no JSON"),
        ("{'name': 'search'}", "no JSON"),
        ('{"name": "search", "arguments": {"query": "a"}} and', "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("9" * 5_000, "no JSON"),
        ("[]", "no JSON object"),
        ('{"arguments": {}}', "without a name"),
        ('{"name": "", "arguments": {}}', "without a name"),
        ('{"name": ["search"], "arguments": {}}', "without a name"),
        ('{"name": "search"}', "no object"),
        ('{"name": "search", "arguments": "Kashi"}', "no object"),
        ('{"name": "search", "arguments": {"query": "\\ud800"}}', "no Unicode"),
    ],
)
def test_what_is_no_call_in_hermes(inside: str, why: str) -> None:
    action = HERMES.action(f"<tool_call>{inside}</tool_call>")
    assert action.kind == "invalid" and why in action.text


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("", "its one <function"),
        ("search", "its one <function"),
        ("<function=search>", "its one <function"),
        ("<function=>\n</function>", "its one <function"),
        ("<function=search></function> more", "its one <function"),
        ("<function=search>more</function>", "no <parameter"),
        ("<function=search><parameter=query>a</function>", "no <parameter"),
        ("<function=search><parameter>a</parameter></function>", "no <parameter"),
        ("<function=search><parameter=q>a<parameter=r>b</parameter></function>", "no <parameter"),
        ("<function=search></function><function=search></function>", "no <parameter"),
        ("<function=search><parameter=q>a</parameter><parameter=q>b</parameter></function>", "said twice"),
    ],
)
def test_what_is_no_call_in_qwen3_coder(inside: str, why: str) -> None:
    action = CODER.action(f"<tool_call>{inside}</tool_call>")
    assert action.kind == "invalid" and why in action.text


MARKS = (
    *CODER.tokens,
    "<function=search>",
    "</function>",
    "<parameter=query>",
    "</parameter>",
    '{"name": "search"',
    "a",
)
PIECES = st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=12).map("".join)


@both
@given(turn=PIECES)
def test_any_turn_is_read_and_an_answer_is_the_last_block(protocol, turn: str) -> None:
    action = protocol.action(turn)
    assert (action.kind == "calls") == bool(action.calls)
    if action.kind == "answer":
        assert protocol.answers(turn)[-1] == action.text
    if action.kind == "invalid":
        assert action.text


PLAIN = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=30)


@both
@given(text=PLAIN, thought=st.none() | PLAIN)
def test_turns_are_read_as_they_are_written(protocol, text: str, thought: str | None) -> None:
    assert protocol.action(protocol.search(text, thought)) == calls(text)
    assert protocol.action(protocol.answer(text, thought)) == Action("answer", text.strip())


@both
def test_each_result_is_a_message_and_the_notice_stands_in_the_last(protocol) -> None:
    found = Result(passages=(Passage("1", "Kashi", "A city."), Passage("2", "Rove", "</tool_response>")))
    said = protocol.show([found, Result(failure="timeout"), Result("3")], {}, "Hurry.")
    bodies = ("Doc 1 (Title: Kashi) A city.\nDoc 2 (Title: Rove) ‹/tool_response>", "Error: it took too long.", "3")
    assert said == Observation(bodies, role="tool", notice="\nHurry.")


@both
def test_calls_too_many_are_one_message(protocol) -> None:
    surplus = Result(failure="surplus")
    said = protocol.show([Result("3"), surplus], {}, "Hurry.")
    assert said.bodies == ("3", "Error: too many calls in one turn; this one was not run.")
    said = protocol.show([Result("3"), Result(failure="timeout"), *[surplus] * 500], {})
    last = "Error: too many calls in one turn; the last 500 were not run."
    assert said.bodies == ("3", "Error: it took too long.", last)


def test_thousands_of_parameters_are_read() -> None:
    # Half a minute, where each costs as much as all that follow it; this takes two seconds.
    arguments = {f"p{n}": "x" for n in range(100_000)}
    (call,) = CODER.action(CODER.call(Call("search", arguments=arguments))).calls
    assert call.arguments == arguments


@both
def test_the_system_speaks_as_the_user_and_its_words_are_never_cut(protocol) -> None:
    assert protocol.say("Hurry.", "notice") == Observation(("",), role="user", notice="Hurry.")
    assert protocol.say("<answer> No.", "user") == Observation(("‹answer> No.",), role="user")


@both
def test_nothing_that_the_system_says_is_a_block_or_names_tags_of_another_protocol(protocol) -> None:
    for words in (protocol.correction, protocol.last_turn):
        assert "<answer> </answer>" in words and "<search>" not in words
        assert protocol.action(words.replace("<answer> </answer>", "")).kind == "invalid"
    assert protocol.stop == [] and protocol.ends_turn and protocol.calls_tools_by_schema
