"""The retrieval server that a stage's searches use: none, one of the stage's own, or somebody's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tasks.params import Retrieval
from tasks.retrieval.service.pool import OPENING
from tasks.retrieval.service.settings import Settings
from tasks.servers import started

START = OPENING + 60.0  # seconds from the command to a server that is ready


@contextlib.contextmanager
def retrieval_server(retrieval: Retrieval, index: Path | None, say: Callable[[str], None]) -> Iterator[Retrieval]:
    """See to it that the retrieval server runs for as long as something searches.

    With `retrieval.server: start` one is started at a free port of this machine, as a child that carries the
    workspace's mark, and ended at the end. Whoever opens a client at an address checks that it is ready.

    Args:
        retrieval: the section.
        index: folder of the index; None where there is none.
        say: takes a line of progress.

    Yields:
        the section, with an address in the place of `start`.

    Raises:
        InputError: the retriever cannot be served, the index cannot be opened, or the server did not start in time.
    """
    if retrieval.server != "start":
        yield retrieval
        return
    settings = Settings.of(retrieval, index).dump()
    key, name = "retrieval.server", "retrieval server"
    with started("tasks.retrieval.service.command", settings, seconds=START, name=name, key=key) as address:
        say(f"retrieval server at {address}: {retrieval.retriever}, {retrieval.workers} workers")
        yield retrieval.model_copy(update={"server": address})
