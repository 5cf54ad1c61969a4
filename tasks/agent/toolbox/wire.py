"""Calls and results as plain JSON values: between a client and the server, and between the server and its workers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tasks.agent.protocols.base import Call
from tasks.agent.toolbox.base import Failure, Passage, Result
from tasks.agent.toolbox.nesting import decoded


class _Passage(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str
    title: str
    text: str


class _Result(BaseModel):
    model_config = ConfigDict(strict=True)
    obs: str
    passages: list[_Passage]
    done: bool
    failure: Failure | None
    seconds: float = Field(ge=0, allow_inf_nan=False)


class _Call(BaseModel):
    model_config = ConfigDict(strict=True)
    tool: str
    text: str
    arguments: dict[str, Any] | None


class _Asked(BaseModel):
    """A tool call as hermes writes it."""

    model_config = ConfigDict(strict=True)
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


_RESULTS, _CALLS = TypeAdapter(list[_Result]), TypeAdapter(list[_Call])


def dump_results(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Results as objects `{obs, passages: [{id, title, text}], done, failure, seconds}`."""
    return [
        {
            "obs": result.text,
            "passages": [{"id": one.id, "title": one.title, "text": one.text} for one in result.passages],
            "done": result.done,
            "failure": result.failure,
            "seconds": result.seconds,
        }
        for result in results
    ]


def load_results(content: Any) -> list[Result]:
    """The opposite of `dump_results`; further keys are left aside.

    Raises:
        ValueError: the content is anything else.
    """
    return [
        Result(
            text=one.obs,
            passages=tuple(Passage(shown.id, shown.title, shown.text) for shown in one.passages),
            done=one.done,
            failure=one.failure,
            seconds=one.seconds,
        )
        for one in _RESULTS.validate_python(content)
    ]


def dump_calls(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Calls as objects `{tool, text, arguments}`."""
    return [
        {
            "tool": call.tool,
            "text": call.text,
            "arguments": None if call.arguments is None else dict(call.arguments),
        }
        for call in calls
    ]


def load_calls(content: Any) -> list[Call]:
    """The opposite of `dump_calls`.

    Raises:
        ValueError: the content is anything else.
    """
    return [Call(one.tool, one.text, one.arguments) for one in _CALLS.validate_python(content)]


def write_action(call: Call) -> str:
    """A call as the text that `/get_observation` takes: `<tool_call>{...}</tool_call>`, or the tool's own tags."""
    if call.arguments is None:
        return f"<{call.tool}>{call.text}</{call.tool}>"
    asked = json.dumps({"name": call.tool, "arguments": dict(call.arguments)}, ensure_ascii=False)
    return f"<tool_call>{asked}</tool_call>"


_WRITTEN = re.compile(r"<(\w+)>(.*)</\1>", re.DOTALL)


def read_action(text: str) -> Call | None:
    """The opposite of `write_action`; None where the text is anything else.

    Only the outermost tags count, so nothing that an argument holds can end a call or begin another.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    name, inner = found.groups()
    if name != "tool_call":
        return Call(name, inner)
    try:
        asked = _Asked.model_validate(decoded(inner))
    except ValueError:
        return None
    return Call(asked.name, arguments=asked.arguments)


def describe(tools: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tools as objects `{name, schema}`, as `GET /tools` lists them."""
    return [{"name": name, "schema": tool.schema()} for name, tool in tools.items()]
