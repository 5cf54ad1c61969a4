"""The prompt: the words of `episode.prompt` around a question.

Placeholders are `{question}`, `{tools}` and `{example}`; any other brace is a brace, and what is put in is never read
for placeholders again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.agent import protocols
from tasks.agent.protocols import Protocol
from tasks.agent.toolbox.base import blaming, tool_classes
from tasks.params import Episode, Tools

QUESTION, TOOLS, EXAMPLE = "{question}", "{tools}", "{example}"


@dataclass(frozen=True)
class Template:
    """A prompt without its question.

    Attributes:
        messages_of: role and content of each message, the content cut where the question stands.
    """

    messages_of: tuple[tuple[str, tuple[str, ...]], ...]

    def messages(self, question: str) -> list[dict[str, str]]:
        """The chat messages that pose a question, white space around it left out."""
        asked = question.strip()
        return [{"role": role, "content": asked.join(pieces)} for role, pieces in self.messages_of]

    @property
    def words(self) -> str:
        """All that the template says itself."""
        return "\n".join("".join(pieces) for _, pieces in self.messages_of)


def template(episode: Episode, protocol: Protocol, usage: str) -> Template:
    """The template that a section `episode` describes.

    Args:
        episode: its prompt and its example answer.
        protocol: how the example is written.
        usage: what stands for `{tools}`; see `usage_of`.
    """
    example = episode.example_answer
    # A protocol with cited answers shows how one is cited; the others have no sources.
    shown = f"An answer looks like this: {protocol.answer(example, sources=(1,))}" if example is not None else ""
    said = {TOOLS: usage, EXAMPLE: shown}

    def pieces(text: str) -> tuple[str, ...]:
        return tuple(
            re.sub("|".join(map(re.escape, said)), lambda found: said[found.group()], piece)
            for piece in text.split(QUESTION)
        )

    if isinstance(episode.prompt, str):
        return Template((("user", pieces(episode.prompt)),))
    return Template((("system", pieces(episode.prompt.system)), ("user", pieces(episode.prompt.user))))


def of_params(episode: Episode, tools: Tools) -> Template:
    """The template of a run; tools are looked up where the prompt tells of them.

    Raises:
        InputError: the prompt tells of a tool that there is not.
    """
    protocol = protocols.create(episode.protocol, tools.names)
    return template(episode, protocol, usage_of(tools.names, protocol) if holds(episode, TOOLS) else "")


def holds(episode: Episode, placeholder: str) -> bool:
    """Whether the prompt has a placeholder."""
    prompt = episode.prompt
    return placeholder in (prompt if isinstance(prompt, str) else prompt.system + prompt.user)


def usage_of(names: Sequence[str], protocol: Protocol) -> str:
    """How the tools of these names are called, a line each, without opening them.

    In a protocol of tool calls a line is the function's name, description and JSON schema.

    Raises:
        InputError: there is no such tool, or it cannot say how.
    """
    classes = tool_classes(names).values()
    lines = []
    for tool in classes:
        with blaming(tool):
            schema = protocol.calls_tools_by_schema
            lines.append(json.dumps(tool.schema()["function"], ensure_ascii=False) if schema else tool.usage())
    return "\n".join(lines)
