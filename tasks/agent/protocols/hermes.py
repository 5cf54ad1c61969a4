"""Hermes' tool calls: a JSON object inside `<tool_call>`, as Qwen2.5, Qwen3 and Hermes were taught.

Source: the Hermes function-calling format of Nous Research; verl's `HermesToolParser` reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.agent.protocols.base import Call
from tasks.agent.protocols.tool_calls import CallError, ToolCalls, checked
from tasks.agent.toolbox.nesting import decoded


@dataclass(frozen=True)
class Hermes(ToolCalls):
    """`<tool_call>{"name": NAME, "arguments": {...}}</tool_call>`."""

    name: str = field(init=False, default="hermes")

    def read(self, inside: str) -> Call:
        """The call in a JSON object.

        Raises:
            CallError: there is none.
        """
        try:
            value = decoded(inside)
        except ValueError as error:
            raise CallError("a tool call that is no JSON, or nested too deep") from error
        if not isinstance(value, dict):
            raise CallError("a tool call that is no JSON object")
        return checked(value.get("name"), value.get("arguments"))

    def write(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The JSON object of a call."""
        return json.dumps({"name": tool, "arguments": dict(arguments)}, ensure_ascii=False)
