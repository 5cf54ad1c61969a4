"""The body of `POST /get_observation`, in verl-tool's form, read item by item.

verl-tool's client (verl_tool/agent_loop/verltool_agent_loop.py) has two slips that are taken as they are meant: it
cuts the stop string off the action, so a closing tag may be missing, and it sends `trajectory_ids` as a bare string
where it ends a trajectory, so that a server that counts letters would never free it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.agent.protocols.base import Action, Call, Protocol
from tasks.agent.toolbox import wire


class RequestError(ValueError):
    """The body is not of the form; the message is one line for its sender."""


@dataclass(frozen=True)
class Item:
    """One trajectory's part of a request.

    Attributes:
        trajectory_id: whose it is.
        action: the generated turn.
        finish: whether the trajectory has ended; nothing is called.
        call: the one call of an item with `details`, whose observation is an object; see `wire.dump_results`.
    """

    trajectory_id: str
    action: str
    finish: bool
    call: Call | None


def read_items(body: Any) -> list[Item]:
    """Items of a body `{trajectory_ids, actions, finish?, is_last_step?, extra_fields?, ...}`.

    Every value is a list with one entry a trajectory; an entry of `extra_fields` is an object, and may hold the other
    keys as well. Keys of no meaning here are left aside. An item whose `details` is true must hold one call, as
    `wire.write_action` writes it.

    Raises:
        RequestError: the body is anything else.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    ids = body.get("trajectory_ids")
    ids = [ids] if isinstance(ids, str) else ids
    if not isinstance(ids, list) or not ids:
        raise RequestError("trajectory_ids: must be a list with one entry a trajectory")
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in ids):
        raise RequestError("trajectory_ids: each must be a string")
    columns = {key: value for key, value in body.items() if key != "trajectory_ids"}
    for key, value in columns.items():
        if not isinstance(value, list) or len(value) != len(ids):
            name = key if key.isidentifier() else ascii(key)[:80]  # a key may hold half a character, or a line's end
            raise RequestError(f"{name}: must be a list as long as trajectory_ids, {len(ids)}")
    actions = columns.get("actions")
    if actions is None or not all(isinstance(one, str) for one in actions):
        raise RequestError("actions: must be a list of strings")
    extra = columns.pop("extra_fields", [{}] * len(ids))
    if not all(one is None or isinstance(one, dict) for one in extra):
        raise RequestError("extra_fields: each must be an object")
    items = []
    for row, (name, action) in enumerate(zip(ids, actions, strict=True)):
        fields = {**(extra[row] or {}), **{key: value[row] for key, value in columns.items()}}
        finish, details = (_flag(fields, key) for key in ("finish", "details"))
        call = wire.read_action(action) if details and not finish else None
        if details and not finish and call is None:
            raise RequestError("actions: with details, one is <NAME>text</NAME> or <tool_call>{...}</tool_call>")
        items.append(Item(str(name), action, finish, call))
    return items


def _flag(fields: dict[str, Any], key: str) -> bool:
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise RequestError(f"{key}: must be true or false")
    return value


def read_turn(action: str, protocol: Protocol) -> Action:
    """What a turn asks for, as the protocol reads it; its last closing tag may have been cut off."""
    whole = protocol.action(action)
    if whole.kind != "invalid":
        return whole
    for closing in [*protocol.stop, "</tool_call>"]:
        closed = protocol.action(action + closing)
        if closed.kind != "invalid":
            return closed
    return whole
