"""The servers that a stage's episodes use: for retrieval and for tools; none, one of the stage's own, or somebody's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tasks.agent.toolbox.client import offered_tools
from tasks.agent.toolbox.spec import Settings
from tasks.agent.toolbox.workers import OPENING
from tasks.params import Playing
from tasks.servers import started

START = OPENING + 60.0  # seconds from the command to a server that is ready


@contextlib.contextmanager
def serving(playing: Playing, *, index: Path | None, say: Callable[[str], None]) -> Iterator[Playing]:
    """See to it that the tool server is ready before anything is played.

    With `tools.server: start` one is started at a free port of this machine, as a child that carries the workspace's
    mark, and ended at the end.

    Args:
        playing: the sections that episodes are played by.
        index: folder of the retrieval index; None where the environment needs none.
        say: takes a line of progress.

    Yields:
        the sections, with an address or null where they said `start`.

    Raises:
        InputError: a tool is unknown or cannot be opened, the server is not ready, or it did not start in time.
    """
    tools = playing.tools
    if tools.server is None:
        yield playing
    elif tools.server != "start":
        offered_tools(tools.server.rstrip("/"))
        yield playing
    else:
        settings = Settings.of(playing, index).dump()
        key, name = "tools.server", "tool server"
        with started("tasks.agent.toolbox.command", settings, seconds=START, name=name, key=key) as address:
            say(f"tool server at {address}: {', '.join(tools.names)}")
            yield playing.model_copy(update={"tools": tools.model_copy(update={"server": address})})
