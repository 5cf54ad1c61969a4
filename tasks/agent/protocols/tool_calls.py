"""What the protocols of tool calls share: calls inside `<tool_call>`, results as messages of role `tool`.

The model's chat template shows the tools' schemas and frames the results; the end token closes every turn. A turn
may hold several calls. The answer keeps its tags, since nothing else tells an answer from a remark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.agent.protocols.base import Action, Call, Observation, Tags
from tasks.agent.protocols.failures import told_surplus
from tasks.agent.toolbox.base import Result

# A block holds no other tag of its kind, so nested, repeated or crossed tags never make one.
_CALL = re.compile(r"<tool_call>((?:(?!</?tool_call>).)*)</tool_call>", re.DOTALL)
_CALL_TAG = re.compile(r"</?tool_call>")
_ANSWER = re.compile(r"<answer>((?:(?!</?(?:answer|tool_call)>).)*)</answer>", re.DOTALL)


class CallError(ValueError):
    """What stands inside `<tool_call>` is no call; the message says why."""


@dataclass(frozen=True)
class ToolCalls(Tags):
    """`<think> </think>`, `<tool_call> </tool_call>`, `<tool_response> </tool_response>`, `<answer> </answer>`.

    Whoever inherits says what stands inside `<tool_call>` (`read`, `write`).
    """

    tools: tuple[str, ...] = ("search",)
    tags: tuple[str, ...] = field(init=False, default=("think", "tool_call", "tool_response", "answer"))
    calls_tools_by_schema: bool = field(init=False, default=True)
    ends_turn: bool = field(init=False, default=True)

    def read(self, inside: str) -> Call:
        """The call that stands inside a block.

        Raises:
            CallError: there is none.
        """
        raise NotImplementedError

    def write(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What stands inside the block of a call."""
        raise NotImplementedError

    @property
    def tokens(self) -> list[str]:
        """Opening and closing tags, for a tokenizer that gives each an id of its own."""
        return [mark for tag in ToolCalls.tags for mark in (f"<{tag}>", f"</{tag}>")]

    @property
    def stop(self) -> list[str]:
        """None: the end token closes a turn, and a turn may go on after its first call."""
        return []

    def action(self, turn: str) -> Action:
        """Read one generated turn: its calls; without any, its last answer block.

        Calls go before an answer in the same turn, which cannot rest on what they bring; the block still counts as
        one of the episode's answers, so that a guess beside a call is paid for. One bad call makes the turn invalid,
        where verl's parsers drop it in silence. A call in a thought is a call, as in verl.
        """
        blocks = _CALL.findall(turn)
        if _CALL_TAG.search(_CALL.sub("", turn)):
            return Action("invalid", "a tool call that is not closed, or not opened")
        if blocks:
            try:
                return Action("calls", calls=tuple(self.read(block) for block in blocks))
            except CallError as error:
                return Action("invalid", str(error))
        answers = self.answers(turn)
        return Action("answer", answers[-1]) if answers else Action("invalid", "neither a tool call nor an answer")

    def answers(self, generated: str) -> list[str]:
        """Texts of all answer blocks of a *generated* turn, in order.

        Those inside a call's arguments are none, nor are those after a call that is opened and never closed.
        """
        outside = _CALL.sub("</tool_call>", generated).partition("<tool_call>")[0]
        return [text.strip() for text in _ANSWER.findall(outside)]

    def show(self, results: Sequence[Result], numbers: dict[str, int], notice: str = "") -> Observation:
        """Each result a message of role `tool`; the notice stands in the last.

        Calls too many have one message together: each would have a frame of its own, which no budget cuts.
        """
        run = [result for result in results if result.failure != "surplus"]
        bodies = [self.body(result, numbers).removesuffix("\n") for result in run]
        if len(run) < len(results):
            bodies.append(told_surplus(len(results) - len(run)))
        return Observation(tuple(bodies), role="tool", notice=f"\n{notice}" * bool(notice))

    def say(self, text: str, role: Literal["notice", "user"]) -> Observation:
        """A message of role `user`: the system has no other word in a chat that is under way."""
        if role == "user":
            return Observation((self.neutralise(text),), role="user")
        return Observation(("",), role="user", notice=text)

    def call(self, call: Call, thought: str | None = None) -> str:
        """Text of a turn that makes this call."""
        return f"{self.think(thought)}<tool_call>\n{self.write(call.tool, call.arguments or {})}\n</tool_call>"

    def search(self, query: str, thought: str | None = None) -> str:
        """Text of a turn that searches."""
        return self.call(Call("search", arguments={"query": query}), thought)

    def answer(self, answer: str, thought: str | None = None, sources: Sequence[int] = ()) -> str:
        """Text of a turn that answers."""
        return f"{self.think(thought)}<answer> {answer} </answer>"

    @property
    def correction(self) -> str:
        """What the system says to a turn that asked for nothing valid."""
        return "That was neither a valid tool call nor an answer. Call a tool, or answer inside <answer> </answer>."


def checked(tool: object, arguments: object) -> Call:
    """A call out of what a block held.

    Raises:
        CallError: no name, no object of arguments, or text that is no Unicode (half a surrogate pair).
    """
    if not isinstance(tool, str) or not tool:
        raise CallError("a tool call without a name")
    if not isinstance(arguments, dict):
        raise CallError("a tool call whose arguments are no object")
    try:
        json.dumps([tool, arguments], ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise CallError("a tool call that is no Unicode") from error
    return Call(tool, arguments=arguments)
