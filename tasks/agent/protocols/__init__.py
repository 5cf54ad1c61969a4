"""The protocols: how a turn asks for tools, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tasks.agent.protocols.base import Action, Call, Fact, Observation, Protocol
from tasks.agent.protocols.hermes import Hermes
from tasks.agent.protocols.qwen3_coder import Qwen3Coder
from tasks.agent.protocols.research import Research
from tasks.agent.protocols.search_r1 import SearchR1

PROTOCOLS: dict[str, Callable[[tuple[str, ...]], Protocol]] = {
    "search-r1": SearchR1,
    "research": Research,
    "hermes": Hermes,
    "qwen3_coder": Qwen3Coder,
}


def create(name: str, tools: Sequence[str]) -> Protocol:
    """The protocol of that name over these tools."""
    return PROTOCOLS[name](tuple(tools))


__all__ = [
    "PROTOCOLS",
    "Action",
    "Call",
    "Fact",
    "Hermes",
    "Observation",
    "Protocol",
    "Qwen3Coder",
    "Research",
    "SearchR1",
    "create",
]
