"""From the parameters to what episodes need: one place for RL, SFT's checks, demonstrations and evaluation."""

from __future__ import annotations

from pathlib import Path

from tasks.agent import environments, interactions, protocols
from tasks.agent.budget import Budget
from tasks.agent.chat import Chat, Tokenizer
from tasks.agent.episode import Setup
from tasks.agent.toolbox import Context, Limits, Toolbox, Tools
from tasks.agent.toolbox.client import ToolClient
from tasks.agent.toolbox.running import build
from tasks.params import Playing


def open_tools(playing: Playing, index: Path | None) -> Tools:
    """Open the tools that `tools.names` lists, in this process or behind the server at `tools.server`.

    Args:
        playing: the sections; where they say `start`, `toolbox.serving` has put the address in.
        index: folder of the retrieval index; None where the environment needs none.

    Raises:
        InputError: there is no such tool, it cannot be opened, or the server is not ready.
    """
    tools, episode = playing.tools, playing.episode
    limits = Limits(seconds=episode.tool_seconds, parallel=episode.max_parallel_calls)
    if tools.server is not None:
        return ToolClient(tools.server, tools.names, limits)
    return Toolbox(build(tools.names, Context(index, playing.retrieval)), limits)


def open_setup(
    playing: Playing,
    *,
    index: Path | None,
    tokenizer: Tokenizer,
    deadline_seconds: float | None = None,
    fallback_reward: float = 0.0,
) -> Setup:
    """Open everything that episodes share.

    Args:
        playing: the sections that episodes are played by, as `toolbox.serving` yields them.
        index: folder of the retrieval index; None where the environment needs none.
        tokenizer: the policy's.
        deadline_seconds: of an episode; None where a slow one holds up nobody.
        fallback_reward: reward of an episode that the deadline has cut.

    Raises:
        InputError: a tool, an interaction or an environment is unknown, or the chat template cannot frame what the
            protocol says.
    """
    episode = playing.episode
    opened = open_tools(playing, index)
    protocol = protocols.create(episode.protocol, opened.names)
    chat = Chat(tokenizer, opened.schemas if protocol.calls_tools_by_schema else ())
    if protocol.ends_turn:
        chat.require("tool", "user")
    elif episode.interaction is not None:
        chat.require("user")
    return Setup(
        protocol=protocol,
        environment=environments.create(playing.environment),
        tools=opened,
        chat=chat,
        budget=Budget(
            max_turns=episode.max_turns,
            max_response_tokens=episode.max_response_tokens,
            max_turn_tokens=episode.max_turn_tokens,
            max_observation_tokens=episode.max_observation_tokens,
            force_answer=episode.force_answer,
            correct_invalid=episode.correct_invalid,
            max_repeats=episode.max_repeats,
            max_user_turns=episode.max_user_turns,
            user_seconds=episode.tool_seconds,
            deadline_seconds=deadline_seconds,
            fallback_reward=fallback_reward,
        ),
        interaction=interactions.create(episode.interaction),
        example_answer=episode.example_answer,
    )
