"""Qwen3-Coder's tool calls: XML-like tags inside `<tool_call>`, also those of Qwen3.5.

Source: the chat template of Qwen3-Coder; verl's `Qwen3XMLToolParser` reads the same. Values are text here, and get
their types when the tool checks its arguments (`Tool.checked`); verl's parser asks the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.agent.protocols.base import Call
from tasks.agent.protocols.tool_calls import CallError, ToolCalls, checked

_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]+)>((?:(?!</?parameter\b).)*)</parameter>\s*", re.DOTALL)


@dataclass(frozen=True)
class Qwen3Coder(ToolCalls):
    """`<tool_call> <function=NAME> <parameter=KEY> value </parameter> </function> </tool_call>`."""

    name: str = field(init=False, default="qwen3_coder")
    tags: tuple[str, ...] = field(init=False, default=(*ToolCalls.tags, "function", "parameter"))

    def read(self, inside: str) -> Call:
        """The call in its tags; one line break after a value's opening tag and one before its closing are none of it.

        Raises:
            CallError: there is none.
        """
        function = _FUNCTION.fullmatch(inside)
        if function is None:
            raise CallError("a tool call without its one <function=...> </function>")
        tool, rest = function[1], function[2].rstrip()
        arguments: dict[str, str] = {}
        end = 0
        while end < len(rest):
            parameter = _PARAMETER.match(rest, end)
            if parameter is None:
                raise CallError("a tool call with something that is no <parameter=...> </parameter>")
            key, value = parameter.groups()
            if key in arguments:
                raise CallError("a tool call with a parameter said twice")
            arguments[key] = value.removeprefix("\n").removesuffix("\n")
            end = parameter.end()
        return checked(tool, arguments)

    def write(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The tags of a call; what is no text is written as JSON."""
        lines = [f"<function={tool}>"]
        for key, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines += [f"<parameter={key}>", text, "</parameter>"]
        return "\n".join([*lines, "</function>"])
