"""The tool server as a command; see docs/tool-server.md."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from tasks import params as parameters
from tasks.agent import protocols
from tasks.agent.toolbox.pool import Pool
from tasks.agent.toolbox.server import create_app
from tasks.agent.toolbox.spec import Settings, Spec
from tasks.agent.toolbox.workers import ProcessWorker, ThreadWorker, Worker
from tasks.errors import InputError, exit_on_input_error
from tasks.servers import address_of, end_with_input, listen, take_output


def _settings(given: argparse.Namespace) -> Settings:
    """The project's parameters, but for what the command line says."""
    content = parameters.resolve(parameters.profile_name())
    said = {
        "tools": {"names": given.tools, "worker": given.worker, "workers": given.workers},
        "episode": {"tool_seconds": given.seconds, "protocol": given.protocol},
    }
    for section, keys in said.items():
        content[section] |= {key: value for key, value in keys.items() if value is not None}
    params = parameters.typed(content, where="parameters")  # tools are known once the workers have imported them
    return Settings.of(parameters.Playing.of(params), given.index, given.modules)


async def _serve(settings: Settings, pool: Pool, listening: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve until told to end by a signal, or by the end of the standard input where that is a stage's."""
    app = create_app(pool, protocols.create(settings.protocol, settings.spec.names))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2, timeout_keep_alive=30
    )
    server = uvicorn.Server(config)

    def end(*_: Any) -> None:
        server.should_exit = True

    # uvicorn sets its own handlers while it serves, and raises the signal once more for these when it has ended.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    opening = asyncio.create_task(pool.start())
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.wait([opening, serving], return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            await opening
            announce(address_of(listening))
        await serving
    finally:
        end()
        opening.cancel()
        await asyncio.gather(opening, serving, return_exceptions=True)
        await pool.close()


def _worker(kind: str) -> Callable[[Spec], Worker]:
    if kind == "ray":
        from tasks.agent.ray_tools import RayWorker

        return RayWorker
    return ThreadWorker if kind == "thread" else ProcessWorker


def run(arguments: Sequence[str] | None = None) -> None:
    """The command's body; ends with code 0 on SIGTERM, and with 2 and one line when it cannot start."""
    parser = argparse.ArgumentParser("python -m tasks.tool_server", description="Serves tools to episodes over HTTP.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=0, help="0: a free one (default)")
    parser.add_argument("--tools", nargs="+", metavar="NAME", help="instead of tools.names")
    parser.add_argument("--index", type=Path, help="folder of the retrieval index, for tools that search")
    parser.add_argument("--worker", choices=["process", "thread", "ray"], help="instead of tools.worker")
    parser.add_argument("--workers", type=int, help="instead of tools.workers")
    parser.add_argument("--seconds", type=float, help="instead of episode.tool_seconds")
    parser.add_argument("--protocol", choices=list(protocols.PROTOCOLS), help="instead of episode.protocol")
    parser.add_argument(
        "--import", dest="modules", action="append", default=[], metavar="MODULE", help="registers tools of its own"
    )
    parser.add_argument("--stage", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    output = take_output()
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    with exit_on_input_error("tool_server"), contextlib.ExitStack() as stack:
        if given.stage:
            settings = Settings.load(sys.stdin.readline())
            end_with_input()
        else:
            settings = _settings(given)
        listening = stack.enter_context(listen(given.host, given.port))
        if settings.worker == "ray":
            from tasks.agent.ray_tools import cluster

            stack.enter_context(cluster())

        def announce(line: str) -> None:
            with output:  # whoever reads it sees its end
                print(line, file=output)

        count = 1 if settings.worker == "thread" else settings.workers
        pool = Pool(partial(_worker(settings.worker), settings.spec), count, settings.spec.limits)
        try:
            asyncio.run(_serve(settings, pool, listening, announce))
        except InputError as error:
            if given.stage:
                announce(f"error: {error}")
            raise


if __name__ == "__main__":
    run()
