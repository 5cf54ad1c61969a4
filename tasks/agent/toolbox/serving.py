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
    """See to it that the servers are ready before anything is played: the one that searches, then that of the tools.

    One that says `start` is started at a free port of this machine, as a child that carries the workspace's mark, and
    ended at the end. The tools search by the first, wherever they run.

    Args:
        playing: the sections that episodes are played by.
        index: folder of the retrieval index; None where the environment needs none.
        say: takes a line of progress.

    Yields:
        the sections, with an address or null where they said `start`.

    Raises:
        InputError: a tool is unknown or cannot be opened, a server is not ready, or it did not start in time.
    """
    with _retrieval(playing, index, say) as searching, _tools(searching, index, say) as ready:
        yield ready


@contextlib.contextmanager
def _retrieval(playing: Playing, index: Path | None, say: Callable[[str], None]) -> Iterator[Playing]:
    if playing.retrieval.server is None:
        yield playing
        return
    from tasks.retrieval.service.serving import retrieval_server

    with retrieval_server(playing.retrieval, index, say) as retrieval:
        yield playing.model_copy(update={"retrieval": retrieval})


@contextlib.contextmanager
def _tools(playing: Playing, index: Path | None, say: Callable[[str], None]) -> Iterator[Playing]:
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
