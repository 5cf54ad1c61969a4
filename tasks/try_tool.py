"""Call a tool as an episode would: `python -m tasks.try_tool NAME TEXT`, TEXT being what stands between its tags.

Prints, for each protocol, the turn that asks for it and the observation that comes back.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tasks import params as parameters
from tasks.agent import protocols
from tasks.agent.protocols import Call
from tasks.agent.toolbox import Context, Limits, Toolbox
from tasks.agent.toolbox.running import build
from tasks.errors import InputError, exit_on_input_error

INDEX = Path("data/index")


def show(name: str, text: str) -> str:
    """What is printed.

    Raises:
        InputError: there is no such tool, or its `parse` makes nothing of the text.
    """
    profile = parameters.profile_name()
    params = parameters.parse(parameters.resolve_in_force(), where=profile)
    opened = build([name], Context(INDEX if INDEX.is_dir() else None, params.retrieval))
    raw = opened[name].parse(text)
    if raw is None:
        raise InputError(f"tool {name!r}: its parse makes nothing of {text!r}")
    lines = []
    for one in protocols.PROTOCOLS:
        protocol = protocols.create(one, [name])
        call = Call(name, arguments=raw) if protocol.calls_tools_by_schema else Call(name, text)
        asked = protocol.call(call)
        action = protocol.action(asked)
        if action.kind != "calls":
            raise InputError(f"protocol {one} reads no call in {asked!r}: {action.text}")
        box = Toolbox(opened, Limits(params.episode.tool_seconds))
        results = asyncio.run(box.call("try", action.calls))
        asyncio.run(box.release("try"))
        seen = protocol.show(results, {})
        shown = (seen.opening + "".join(seen.bodies) + seen.closing).strip()
        lines += [one, _indented("turn", asked), _indented("observation", shown)]
    return "\n".join(lines)


def _indented(label: str, text: str) -> str:
    first, *more = text.splitlines() or [""]
    return "\n".join([f"  {label:<11}  {first}", *(f"{'':15}{line}" for line in more)])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tasks.try_tool", description=__doc__)
    parser.add_argument("name", help="the tool's name")
    parser.add_argument("text", help="what stands between its tags")
    asked = parser.parse_args()
    with exit_on_input_error("try_tool"):
        print(show(asked.name, asked.text))


if __name__ == "__main__":
    main()
