"""Forager's tools as verl's `BaseTool`, for verl's own ToolAgentLoop (`multi_turn.tool_config_path`).

The same tools, limits, time-outs and words as in our own episode; only the loop is verl's. What that loop does not
have is lost: it makes an instance for every call, so a tool's state lives for one call; no tool can end an episode; a
call that cannot be read is dropped without a word; and there is no forced answer, correction or deadline.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

from tasks.agent.protocols import Call, Protocol, create
from tasks.agent.setup import open_tools
from tasks.agent.toolbox import Result, Tools
from tasks.params import Playing


class _Schema(OpenAIFunctionToolSchema):
    """A tool's schema, of which verl's own model would keep but types and descriptions.

    verl reads types out of it, and shows the chat template what `model_dump` returns: all of it.
    """

    _whole: dict[str, Any] = PrivateAttr()

    @classmethod
    def of(cls, schema: dict[str, Any]) -> _Schema:
        """From OpenAI's function schema."""
        function, parameters = schema["function"], schema["function"]["parameters"]
        typed = {name: {**one, "type": _type(one)} for name, one in parameters["properties"].items()}
        made = cls.model_validate(
            {**schema, "function": {**function, "parameters": {**parameters, "properties": typed}}}
        )
        made._whole = schema
        return made

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._whole


def _type(parameter: dict[str, Any]) -> str | list[str]:
    """Verl wants a type of every parameter; JSON schema has none where there are several, or a reference."""
    if "type" in parameter:
        return str(parameter["type"])
    return [str(one.get("type", "object")) for one in parameter.get("anyOf", [{}])]


@cache
def _opened(settings: str) -> tuple[Tools, Protocol]:
    """A process's tools, opened once, and the protocol in whose words they answer."""
    content = json.loads(Path(settings).read_text(encoding="utf-8"))
    playing = Playing.model_validate({name: content[name] for name in Playing.model_fields})
    tools = open_tools(playing, Path(content["index"]))
    return tools, create(playing.episode.protocol, tools.names)


class ForagerTool(BaseTool):
    """One tool; verl opens it out of the file that `tasks.agent.verl_tool_config` writes.

    Args:
        config: `name` of the tool, and `settings`: path of the JSON file that it was written with.
        tool_schema: None; the tool knows its own.
    """

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema | None) -> None:
        self._tools, self._protocol = _opened(config["settings"])
        (schema,) = [one for one in self._tools.schemas if one["function"]["name"] == config["name"]]
        super().__init__(config, tool_schema or _Schema.of(schema))

    async def execute(self, instance_id: str, parameters: Any, **_: Any) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Run the call; no step reward, since the episode's reward is its answer's.

        Args:
            instance_id: stands for the trajectory.
            parameters: the call's arguments, or whatever JSON stood in their place.
        """
        if isinstance(parameters, dict):
            (result,) = await self._tools.call(instance_id, [Call(self.name, arguments=parameters)])
        else:
            result = Result(failure="arguments")
        (text,) = self._protocol.show([result], {}).bodies
        return ToolResponse(text=text), 0.0, {"seconds": result.seconds, "failure": result.failure}

    async def release(self, instance_id: str, **_: Any) -> None:
        """Free what the tool remembers of the call."""
        await self._tools.release(instance_id)
