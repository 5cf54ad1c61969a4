"""The tool server as a command; see docs/tool-server.md."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import uvicorn

from tasks import params as parameters
from tasks.agent import protocols
from tasks.agent.toolbox.pool import Pool
from tasks.agent.toolbox.server import create_app
from tasks.agent.toolbox.spec import Settings, Spec
from tasks.agent.toolbox.workers import ProcessWorker, ThreadWorker, Worker
from tasks.servers import Serving, address_of, command_parser, commanded, end_by_signal


def _settings(given: argparse.Namespace) -> Settings:
    """The project's parameters, but for what the command line says."""
    content = parameters.resolve_in_force()
    said = {
        "tools": {"names": given.tools, "worker": given.worker, "workers": given.workers},
        "episode": {"tool_seconds": given.seconds, "protocol": given.protocol},
    }
    for section, keys in said.items():
        content[section] |= {key: value for key, value in keys.items() if value is not None}
    params = parameters.typed(content, where="parameters")  # tools are known once the workers have imported them
    return Settings.of(parameters.Playing.of(params), given.index, given.modules)


async def _serve(serving: Serving[Settings], pool: Pool) -> None:
    """Serve until told to end by a signal, or by the end of the standard input where that is a stage's."""
    settings, listening = serving.settings, serving.listening
    app = create_app(pool, protocols.create(settings.protocol, settings.spec.names))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2, timeout_keep_alive=30
    )
    server = uvicorn.Server(config)
    end = end_by_signal(server)
    opening = asyncio.create_task(pool.start())
    answers = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.wait([opening, answers], return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            await opening
            serving.announce(address_of(listening))
        await answers
    finally:
        end()
        opening.cancel()
        await asyncio.gather(opening, answers, return_exceptions=True)
        await pool.close()


@contextlib.contextmanager
def _workers(settings: Settings) -> Iterator[Callable[[Spec], Worker]]:
    """What makes a worker, with all that workers of its kind need."""
    if settings.worker == "ray":
        from tasks.agent.ray_tools import RayWorker, cluster

        with cluster():
            yield RayWorker
    else:
        yield ThreadWorker if settings.worker == "thread" else ProcessWorker


def run(arguments: Sequence[str] | None = None) -> None:
    """The command's body; ends with code 0 on SIGTERM, and with 2 and one line when it cannot start."""
    parser = command_parser("python -m tasks.tool_server", "Serves tools to episodes over HTTP.")
    parser.add_argument("--tools", nargs="+", metavar="NAME", help="instead of tools.names")
    parser.add_argument("--index", type=Path, help="folder of the retrieval index, for tools that search")
    parser.add_argument("--worker", choices=["process", "thread", "ray"], help="instead of tools.worker")
    parser.add_argument("--workers", type=int, help="instead of tools.workers")
    parser.add_argument("--seconds", type=float, help="instead of episode.tool_seconds")
    parser.add_argument("--protocol", choices=list(protocols.PROTOCOLS), help="instead of episode.protocol")
    parser.add_argument(
        "--import", dest="modules", action="append", default=[], metavar="MODULE", help="registers tools of its own"
    )
    given = parser.parse_args(arguments)
    with (
        commanded("tool_server", given, load=Settings.load, settings=_settings) as serving,
        _workers(serving.settings) as make,
    ):
        settings = serving.settings
        count = 1 if settings.worker == "thread" else settings.workers
        asyncio.run(_serve(serving, Pool(partial(make, settings.spec), count, settings.spec.limits)))


if __name__ == "__main__":
    run()
