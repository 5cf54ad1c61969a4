"""Brackets inside brackets, from a depth that is fine to one that no parser takes."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tasks.agent import environments
from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.protocols import Call, create
from tasks.agent.toolbox import Context, Limits, State, Tool, Toolbox, wire
from tasks.agent.toolbox.nesting import MOST_NESTED, decoded

BUDGET = Budget(
    max_turns=3, max_response_tokens=10**6, max_turn_tokens=10**6, max_observation_tokens=100, correct_invalid=True
)
# Python gives up at about 1000 levels less those of its own stack: which function is the first to is a matter of luck.
DEPTHS = [1, 62, 63, 64, 65, 66, 300, *range(900, 1010, 2), 1500, 5000, 100_000]


class Lists(BaseModel):
    """Any list."""

    query: list[Any]


class Deep(Tool):
    """Says how deep the list is."""

    name, description, Arguments = "deep", "measures", Lists

    def call(self, arguments: Lists, state: State) -> str:
        inner, depth = arguments.query, 1
        while inner:
            inner, depth = inner[0], depth + 1
        return f"depth {depth}"


def brackets(depth: int) -> str:
    return "[" * depth + "]" * depth


def turn(protocol: str, depth: int) -> str:
    """A call that nests lists to a depth; hermes' own two objects are the rest of it."""
    if protocol == "hermes":
        inside = f'{{"name": "deep", "arguments": {{"query": {brackets(depth)}}}}}'
    else:
        inside = f"<function=deep>\n<parameter=query>\n{brackets(depth)}\n</parameter>\n</function>"
    return f"<tool_call>\n{inside}\n</tool_call>"


@pytest.mark.parametrize(("protocol", "most"), [("hermes", MOST_NESTED - 2), ("qwen3_coder", MOST_NESTED)])
def test_an_episode_goes_on_however_deep_a_call_is_nested(
    qwen_tokenizer: Any, defaults: Any, question_row: Any, protocol: str, most: int
) -> None:
    row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])
    tools = Toolbox({"deep": Deep(Context())}, Limits(seconds=60.0))
    setup = Setup(
        create(protocol, ["deep"]), environments.create(defaults.environment), tools, Chat(qwen_tokenizer), BUDGET
    )
    for depth in DEPTHS:
        waiting = [turn(protocol, depth), "<answer> Rove </answer>"]

        async def generate(prompt_ids: list[int], *, max_tokens: int, stop: list[str], waiting: Any = waiting) -> Any:
            ids = qwen_tokenizer.encode(waiting.pop(0), add_special_tokens=False)
            return Generation([*ids, qwen_tokenizer.eos_token_id], None)

        trajectory = asyncio.run(run_episode(row, generate=generate, setup=setup))
        assert (trajectory.stop_reason, trajectory.answer, trajectory.turns) == ("answer", "Rove", 2), depth
        failures = [call.failure for call in trajectory.calls]
        if depth <= most:
            assert failures == [None] and f"depth {depth}" in trajectory.segments[1].text, depth
        elif protocol == "hermes":
            assert failures == [] and trajectory.invalid_turns == 1, depth
        else:
            assert failures == ["arguments"], depth
        trajectory.record()


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_server_and_a_tag_protocols_tool_read_as_deep_and_no_deeper(depth: int) -> None:
    class Two(Deep):
        class Arguments(Lists):
            more: int = 0

    text = f'{{"query": {brackets(depth)}}}'
    asked = wire.read_action(f'<tool_call>{{"name": "deep", "arguments": {text}}}</tool_call>')
    assert (asked is not None) == (depth <= MOST_NESTED - 2)
    if asked is not None:
        assert wire.read_action(wire.write_action(asked)) == asked
    box = Toolbox({"deep": Two(Context())}, Limits(seconds=60.0))
    (result,) = asyncio.run(box.call("one", [Call("deep", text)]))
    assert result.failure == (None if depth <= MOST_NESTED - 1 else "arguments")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_what_is_nested_no_deeper_is_what_json_reads(value: Any) -> None:
    assert decoded(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "{", '{"a": [}', "nothing", "9" * 5000])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decoded(text)
