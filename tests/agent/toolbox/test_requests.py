"""What clients may send, and what the server makes of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.protocols import Call, Hermes, SearchR1
from tasks.agent.toolbox import wire
from tasks.agent.toolbox.base import Passage, Result
from tasks.agent.toolbox.requests import Item, RequestError, read_items, read_turn


def test_verl_tools_two_requests() -> None:
    turn = {
        "trajectory_ids": ["a1"],
        "actions": ["<think> x </think> <search> Kashi "],
        "finish": [False],
        "is_last_step": [False],
        "extra_fields": [{"images": ["aGk="]}],
    }
    assert read_items(turn) == [Item("a1", "<think> x </think> <search> Kashi ", False, None)]
    end = {"trajectory_ids": "a1", "actions": [""], "finish": [True], "is_last_step": [True]}
    assert read_items(end) == [Item("a1", "", True, None)]


def test_a_batch_and_further_keys_one_entry_a_trajectory() -> None:
    items = read_items(
        {
            "trajectory_ids": ["a", 7],
            "actions": ["<search>x</search>", '<tool_call>{"name": "search", "arguments": {"query": "y"}}</tool_call>'],
            "details": [True, False],
            "extra_fields": [None, {"details": True, "finish": False}],
            "step": [1, 2],
        }
    )
    # A key beside extra_fields goes before one inside.
    assert items[0] == Item("a", "<search>x</search>", False, Call("search", "x"))
    assert (items[1].trajectory_id, items[1].call) == ("7", None)
    items = read_items({"trajectory_ids": ["a"], "actions": [""], "extra_fields": [{"finish": True, "details": True}]})
    assert items == [Item("a", "", True, None)]


GOOD: dict[str, Any] = {"trajectory_ids": ["a"], "actions": ["x"]}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ([], "the body must be a JSON object"),
        ({"actions": ["x"]}, "trajectory_ids: must be a list"),
        ({**GOOD, "trajectory_ids": []}, "trajectory_ids: must be a list"),
        ({**GOOD, "trajectory_ids": [None]}, "trajectory_ids: each must be a string"),
        ({**GOOD, "trajectory_ids": [True]}, "trajectory_ids: each must be a string"),
        ({"trajectory_ids": ["a"]}, "actions: must be a list of strings"),
        ({**GOOD, "actions": [3]}, "actions: must be a list of strings"),
        ({**GOOD, "actions": "x"}, "actions: must be a list as long as trajectory_ids, 1"),
        ({**GOOD, "trajectory_ids": "abc", "actions": ["x", "y", "z"]}, "actions: must be a list as long as"),
        ({**GOOD, "finish": [False, True]}, "finish: must be a list as long as trajectory_ids, 1"),
        ({**GOOD, "finish": True}, "finish: must be a list"),
        ({**GOOD, "\ud800\n": [1, 2]}, r"'\ud800\n': must be a list as long as trajectory_ids, 1"),
        ({**GOOD, "finish": ["yes"]}, "finish: must be true or false"),
        ({**GOOD, "extra_fields": ["x"]}, "extra_fields: each must be an object"),
        ({**GOOD, "extra_fields": [{"details": True}]}, "actions: with details, one is"),
        ({**GOOD, "extra_fields": [{"details": 1}]}, "details: must be true or false"),
    ],
)
def test_anything_else_is_refused_in_one_line(body: Any, line: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_items(body)
    assert str(caught.value).startswith(line) and "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
KEYS = ["trajectory_ids", "actions", "finish", "is_last_step", "extra_fields", "details", "x"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON | st.lists(JSON, min_size=1, max_size=2)))
def test_no_body_does_anything_but_be_read_or_refused(body: dict[str, Any]) -> None:
    try:
        items = read_items(body)
    except RequestError:
        return
    assert all(isinstance(one.trajectory_id, str) and isinstance(one.action, str) for one in items)


NAMES = st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}\Z").filter(lambda name: name != "tool_call")
ARGUMENTS = st.dictionaries(st.text(), JSON, max_size=3)
MARKS = st.sampled_from(["</search>", "<search>", "</tool_call>", "<tool_call>", "\n", '"', "é", "\u2028"])
TEXTS = st.lists(st.text() | MARKS, max_size=6).map("".join)


@given(NAMES, TEXTS)
def test_a_call_between_tags_comes_back_whatever_it_holds(name: str, text: str) -> None:
    call = Call(name, text)
    assert wire.read_action(wire.write_action(call)) == call


@given(st.text(), ARGUMENTS | st.dictionaries(TEXTS, TEXTS, max_size=2))
def test_a_call_with_arguments_comes_back_whatever_it_holds(name: str, arguments: dict[str, Any]) -> None:
    call = Call(name, arguments=arguments)
    assert wire.read_action(wire.write_action(call)) == call
    assert wire.load_calls(json.loads(json.dumps(wire.dump_calls([call])))) == [call]


@pytest.mark.parametrize(
    "text",
    ["", "x", "<search>x", "<search>x</find>", "<tool_call>x</tool_call>", '<tool_call>{"arguments": {}}</tool_call>'],
)
def test_what_is_no_call_is_none(text: str) -> None:
    assert wire.read_action(text) is None


def test_results_come_back() -> None:
    results = [
        Result("x", (Passage("p", "t", "y</information>"),), True, None, 0.5),
        Result(failure="timeout", seconds=1.0),
    ]
    assert wire.load_results(json.loads(json.dumps(wire.dump_results(results)))) == results


@pytest.mark.parametrize(
    "change",
    [
        {"obs": 1},
        {"obs": None},
        {"failure": "other"},
        {"seconds": -1.0},
        {"seconds": float("nan")},
        {"done": "yes"},
        {"passages": [{"id": 1, "title": "t", "text": "x"}]},
        {"passages": [["p", "t", "x"]]},
        {"passages": None},
    ],
)
def test_what_is_no_result_is_refused(change: dict[str, Any]) -> None:
    good = wire.dump_results([Result("x", (Passage("p", "t", "y"),))])[0]
    assert len(wire.load_results([good])) == 1
    with pytest.raises(ValueError, match="validation error"):
        wire.load_results([{**good, **change}])


@pytest.mark.parametrize(
    ("turn", "kind", "calls"),
    [
        ("<think> a </think> <search> Kashi </search>", "calls", [("search", "Kashi")]),
        ("<think> a </think> <search> Kashi ", "calls", [("search", "Kashi")]),  # cut, as verl-tool does
        ("<search> a </search> <search> Kashi", "calls", [("search", "Kashi")]),
        ("<answer> Rove ", "answer", []),
        ("<answer> Rove </answer>", "answer", []),
        ("<search> ", "calls", [("search", "")]),
        ("search Kashi", "invalid", []),
        ("<python> 1 ", "invalid", []),
        ("", "invalid", []),
    ],
)
def test_a_turn_is_read_with_or_without_its_last_closing_tag(turn: str, kind: str, calls: list[Any]) -> None:
    action = read_turn(turn, SearchR1(("search",)))
    assert action.kind == kind
    assert [(call.tool, call.text) for call in action.calls] == calls


def test_a_cut_tool_call_is_read_too() -> None:
    action = read_turn('<tool_call>\n{"name": "search", "arguments": {"query": "Kashi"}}\n', Hermes(("search",)))
    assert [call.arguments for call in action.calls] == [{"query": "Kashi"}]
