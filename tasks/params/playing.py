"""What sections say together about how episodes are played: what they name must exist, and no limit be idle.

Checked with the parameters, since otherwise the first to notice would be an episode, after the policy was made.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import get_args
from urllib.parse import urlsplit

from pydantic import BaseModel

from tasks.agent import interactions, protocols
from tasks.agent.environments import pays_turns
from tasks.agent.rewards import RewardParams
from tasks.agent.toolbox.base import RESERVED, tool_classes
from tasks.agent.trajectory import StopReason
from tasks.errors import InputError
from tasks.params import searching
from tasks.params.models import Episode, Params, Tools

_PLACEHOLDERS = ("question", "tools", "example")


def check_playing(params: Params, environment: BaseModel, where: str | None) -> None:
    """Check the sections `episode`, `tools` and `rl`, and what the reward asks of the protocol and the budgets.

    Args:
        params: all parameters.
        environment: the environment's own.
        where: the files that they stand in.

    Raises:
        InputError: something is named that there is not, or a value can never take effect.
    """
    episode, tools = params.episode, params.tools
    _check_protocol(episode, where)
    for key, server in (("tools.server", tools.server), ("retrieval.server", params.retrieval.server)):
        _check_address(key, server, where)
    _check_tools(tools, episode, where)
    if episode.interaction is not None:
        interactions.find(episode.interaction, where)
    faults = [
        *_prompt(episode, tools),
        *_budgets(params),
        *searching.faults(params.retrieval, params.index, episode.tool_seconds),
    ]
    reward = getattr(environment, "reward", None)
    if isinstance(reward, RewardParams):
        faults += _reward(reward, episode, tools)
    faults += [*_soft_overlong(params, reward), *_credit(params)]
    if faults:
        raise InputError(faults[0], where=where)


def _check_protocol(episode: Episode, where: str | None) -> None:
    known = protocols.PROTOCOLS
    if episode.protocol not in known:
        near = difflib.get_close_matches(episode.protocol, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"protocols are: {', '.join(known)}"
        raise InputError(f"episode.protocol: no protocol {episode.protocol!r}", where=where, mend=hint)


def _check_tools(tools: Tools, episode: Episode, where: str | None) -> None:
    """A tool behind somebody's server may exist there alone, unless the prompt or the chat template tells of it."""
    for name in tools.names:
        if not name.isidentifier() or name.casefold() in RESERVED:
            raise InputError(
                f"tools.names: {name!r} cannot be a tool's name",
                where=where,
                mend="name identifiers, not a tag",
            )
        if tools.names.count(name) > 1:
            raise InputError(f"tools.names: {name!r} is named twice", where=where)
    told = "{tools}" in _words(episode) or protocols.create(episode.protocol, tools.names).calls_tools_by_schema
    if tools.server in (None, "start") or told:
        tool_classes(tools.names, where)


def _check_address(key: str, server: str | None, where: str | None) -> None:
    if server not in (None, "start") and not _is_address(server):
        raise InputError(
            f"{key}: {server!r} is no address",
            where=where,
            mend="name one such as http://127.0.0.1:5500, start, or null",
        )


def _is_address(text: str) -> bool:
    """Whether it is `http://HOST`, with or without a port and a path."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # brackets that do not close, a port that is no number up to 65535
        return False
    named = parts.scheme in ("http", "https") and parts.hostname and port != 0
    return bool(named and not (parts.query or parts.fragment or re.search(r"\s", text)))


def _words(episode: Episode) -> str:
    prompt = episode.prompt
    return prompt if isinstance(prompt, str) else f"{prompt.system}\n{prompt.user}"


def _prompt(episode: Episode, tools: Tools) -> Iterator[str]:
    for inside in re.findall(r"\{(\s*\w+\s*)\}", _words(episode)):
        near = difflib.get_close_matches(inside.strip().lower(), _PLACEHOLDERS, n=1, cutoff=0.8)
        if near and inside != near[0]:
            yield f"episode.prompt: {{{inside}}} is no placeholder; did you mean {{{near[0]}}}?"
    if "{question}" not in (episode.prompt if isinstance(episode.prompt, str) else episode.prompt.user):
        yield "episode.prompt: must hold {question}, or the policy would never see one"
    example = episode.example_answer
    if example is None:
        return
    if "{example}" not in _words(episode):
        yield "episode.example_answer: is shown nowhere, since episode.prompt does not hold {example}"
    if not example.strip():
        yield "episode.example_answer: is empty; null shows none"
    if protocols.create(episode.protocol, tools.names).neutralise(example) != example:
        yield (
            f"episode.example_answer: {example!r} holds a tag or a mark of protocol {episode.protocol}, "
            "which is put round it; give the answer alone"
        )


def _budgets(params: Params) -> Iterator[str]:
    episode, rl = params.episode, params.rl
    if episode.max_turn_tokens > episode.max_response_tokens:
        yield (
            f"episode.max_turn_tokens: {episode.max_turn_tokens} is more than the whole of "
            f"episode.max_response_tokens, {episode.max_response_tokens}"
        )
    if rl.deadline_seconds < episode.tool_seconds:
        yield (
            f"rl.deadline_seconds: {rl.deadline_seconds:g} is less than one call may take, "
            f"episode.tool_seconds: {episode.tool_seconds:g}"
        )
    reasons = get_args(StopReason)
    for reason in rl.no_loss_on:
        if reason not in reasons:
            near = difflib.get_close_matches(reason, reasons, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"they end by: {', '.join(reasons)}"
            yield f"rl.no_loss_on: no episode ends by {reason!r}; {hint}"
    if "answer" in rl.no_loss_on:
        yield "rl.no_loss_on: without the episodes that answer, no right answer would ever be trained on"


def _soft_overlong(params: Params, reward: object) -> Iterator[str]:
    if params.rl.soft_overlong is None:
        return
    if not isinstance(reward, RewardParams):
        yield f"rl.soft_overlong: environment {params.environment.name} has no such reward; set it to null"
    elif "soft_overlong" in _parts(reward):
        yield "rl.soft_overlong: environment.reward.soft_overlong is set too; set one of them to null"


def _credit(params: Params) -> Iterator[str]:
    rl = params.rl
    if rl.credit.level != "turn":
        return
    if not pays_turns(params.environment):
        name = params.environment.name
        yield f"rl.credit.level: environment {name} cannot tell what a turn was worth; set trajectory"
    if params.episode.max_turns == 1:
        yield "rl.credit.level: the last turn has no reward of its own; set trajectory, or episode.max_turns: 2 or more"


def _parts(reward: RewardParams) -> dict[str, object]:
    """The parts that are in force."""
    return {name: part for name, part in reward if part is not None}


def _reward(reward: RewardParams, episode: Episode, tools: Tools) -> Iterator[str]:
    parts = _parts(reward)
    if "citation_precision" in parts and not protocols.create(episode.protocol, tools.names).cites:
        yield (
            f"environment.reward.citation_precision: protocol {episode.protocol} has no citations; "
            "set episode.protocol: research, or leave it out"
        )
    for name, part in parts.items():
        most = getattr(part, "max_tokens", 0)
        if most > episode.max_response_tokens:
            yield (
                f"environment.reward.{name}.max_tokens: {most} can never be reached, since an episode ends at "
                f"episode.max_response_tokens: {episode.max_response_tokens}"
            )
