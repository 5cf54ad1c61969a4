"""Our readers of tool calls against verl's own, on calls as a model was taught to write them."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.tools.schemas import OpenAIFunctionToolSchema

from tasks.agent.protocols import Hermes, Qwen3Coder
from tasks.agent.toolbox import Context, State, Tool


class Letters:
    """A tokenizer whose tokens are code points, so that nothing but the parsers is compared."""

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


def verls(name: str, turn: str, tools: list[dict[str, Any]] | None = None) -> list[tuple[str, Any]]:
    schemas = [OpenAIFunctionToolSchema.model_validate(tool) for tool in tools or []]
    parser = ToolParser.get_tool_parser(name, Letters())
    _, found = asyncio.run(parser.extract_tool_calls([ord(letter) for letter in turn], schemas))
    return [(call.name, json.loads(call.arguments)) for call in found]


def ours(protocol: Any, turn: str) -> list[tuple[str, Any]]:
    return [(call.tool, call.arguments) for call in protocol.action(turn).calls]


TEXT = st.text(max_size=15)
WORD = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=15)
NAME = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | WORD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3),
    max_leaves=6,
)
SPACE = st.sampled_from(("", "\n", " \n"))


@given(st.lists(st.tuples(WORD.filter(bool), st.dictionaries(WORD, JSON, max_size=3), WORD, SPACE), max_size=3))
def test_hermes_reads_as_verl_does(made) -> None:
    turn = "".join(
        f"{said}<tool_call>{space}{json.dumps({'name': name, 'arguments': arguments})}{space}</tool_call>"
        for name, arguments, said, space in made
    )
    assert ours(Hermes(), turn) == verls("hermes", turn) == [(name, arguments) for name, arguments, *_ in made]


@given(st.lists(st.tuples(NAME, st.dictionaries(NAME, WORD, max_size=3), WORD, SPACE), min_size=1, max_size=3))
def test_qwen3_coder_reads_as_verl_does(made) -> None:
    turn = "".join(
        f"{said}<tool_call>\n<function={name}>\n"
        + "".join(f"<parameter={key}>\n{value}\n</parameter>{space}" for key, value in arguments.items())
        + "</function>\n</tool_call>"
        for name, arguments, said, space in made
    )
    # verl takes the word null for no value whatever the tool expects; here only where text does not fit.
    expected = [(n, {k: None if v.lower() == "null" else v for k, v in a.items()}) for n, a, *_ in made]
    assert verls("qwen3_coder", turn) == expected
    assert ours(Qwen3Coder(), turn) == [(name, arguments) for name, arguments, *_ in made]


class Everything(BaseModel):
    text: str
    whole: int
    real: float
    sure: bool
    many: list[int]
    named: dict[str, int]


class Taker(Tool):
    name = "taker"
    description = "takes an argument of every type"
    Arguments = Everything

    def call(self, arguments: Any, state: State) -> str:
        return ""


VALUES = st.fixed_dictionaries(
    {
        "text": WORD.filter(lambda text: text.lower() != "null"),
        "whole": st.integers(-(2**53), 2**53),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "sure": st.booleans(),
        "many": st.lists(st.integers(-9, 9), max_size=3),
        "named": st.dictionaries(NAME, st.integers(-9, 9), max_size=3),
    }
)


@given(VALUES)
def test_values_get_the_types_that_verl_reads_out_of_the_schema(values) -> None:
    written = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in written.items())
    turn = f"<tool_call>\n<function=taker>\n{parameters}</function>\n</tool_call>"
    tool = Taker(Context())
    ((_, said),) = verls("qwen3_coder", turn, [tool.schema()])
    (call,) = Qwen3Coder().action(turn).calls
    assert call.arguments is not None
    assert tool.checked(call.arguments).model_dump() == Everything.model_validate(said).model_dump() == values


class Maybe(BaseModel):
    text: str
    whole: int | None


def test_null_is_no_value_where_text_does_not_fit_and_a_word_where_it_does() -> None:
    class Asker(Taker):
        Arguments = Maybe

    tool = Asker(Context())
    assert tool.checked({"text": "null", "whole": "null"}) == Maybe(text="null", whole=None)
    for wrong in ({"text": "a", "whole": "["}, {"text": ["a"], "whole": "1"}, {"whole": "1"}, {}):
        with pytest.raises(ValidationError):
            tool.checked(wrong)


@pytest.mark.parametrize(
    ("name", "turn", "verl_reads"),
    [
        ("hermes", '<tool_call>{"name": "search"}</tool_call>', []),
        ("hermes", '<tool_call>{"name": "a", "arguments": {}}</tool_call><tool_call>?</tool_call>', [("a", {})]),
        ("qwen3_coder", "<tool_call><function=a", []),
        ("qwen3_coder", "<tool_call><function=a><parameter=q></function></tool_call>", [("a", {"q": ""})]),
        ("qwen3_coder", "<tool_call><function=a><parameter=q>cut", [("a", {"q": "cut"})]),
    ],
)
def test_a_bad_call_is_told_where_verl_drops_it_or_guesses(name: str, turn: str, verl_reads: list) -> None:
    assert verls(name, turn) == verl_reads
    protocol = {"hermes": Hermes(), "qwen3_coder": Qwen3Coder()}[name]
    assert protocol.action(turn).kind == "invalid"
