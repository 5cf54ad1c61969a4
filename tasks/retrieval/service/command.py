"""The retrieval server as a command; see docs/retrieval-server.md."""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path

import uvicorn
import uvloop

import tasks.quiet  # noqa: F401  workers inherit it
from tasks import params as parameters
from tasks.retrieval.service.answering import Answering
from tasks.retrieval.service.server import create_app
from tasks.retrieval.service.settings import CACHE, QUEUE, Settings
from tasks.servers import Serving, address_of, command_parser, commanded, end_by_signal

ENDING = 5  # seconds that requests under way have once the server is to end


def _settings(given: argparse.Namespace) -> Settings:
    """The project's parameters, but for what the command line says."""
    content = parameters.resolve_in_force()
    said = {"retriever": given.retriever, "topk": given.topk, "workers": given.workers, "seconds": given.seconds}
    content["retrieval"] |= {key: value for key, value in said.items() if value is not None}
    params = parameters.typed(content, where="parameters")
    return Settings.of(params.retrieval, given.index, queue=given.queue, cache=given.cache)


async def _serve(serving: Serving[Settings]) -> None:
    """Serve until told to end by a signal, or by the end of the standard input where that is a stage's."""
    settings, listening = serving.settings, serving.listening
    make, nursery = settings.maker()
    answering = Answering(
        make,
        workers=settings.workers,
        queue=settings.queue,
        seconds=settings.seconds,
        cache=settings.cache << 20,
    )
    config = uvicorn.Config(
        create_app(answering, retriever=settings.retriever, topk=settings.topk),
        http="httptools",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=ENDING,
        timeout_keep_alive=30,
    )
    server = uvicorn.Server(config)
    end = end_by_signal(server)

    async def work() -> None:
        await answering.pool.start()
        gc.freeze()  # or each full collection would look through all that was imported, and hold up every request
        serving.announce(address_of(listening))
        await answering.pool.run()

    working, answers = asyncio.create_task(work()), asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.wait([working, answers], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working  # it ends in an error alone
        await answers
    finally:
        end()
        await asyncio.gather(answers, return_exceptions=True)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await answering.pool.close()
        nursery.close()


def run(arguments: Sequence[str] | None = None) -> None:
    """The command's body; ends with code 0 on SIGTERM, and with 2 and one line when it cannot start."""
    parser = command_parser("python -m tasks.retrieval_server", "Serves retrieval over HTTP.")
    parser.add_argument("--index", type=Path, default=Path("data/index"), help="folder of the index (data/index)")
    parser.add_argument("--retriever", help="instead of retrieval.retriever")
    parser.add_argument("--workers", type=int, help="instead of retrieval.workers")
    parser.add_argument("--topk", type=int, help="instead of retrieval.topk")
    parser.add_argument("--seconds", type=float, help="deadline of a request, instead of retrieval.seconds")
    parser.add_argument("--queue", type=int, default=QUEUE, help=f"queries that may wait ({QUEUE})")
    parser.add_argument("--cache", type=int, default=CACHE, help=f"MiB of answers to remember; 0: none ({CACHE})")
    given = parser.parse_args(arguments)
    with (
        commanded("retrieval_server", given, load=Settings.load, settings=_settings) as serving,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(serving))


if __name__ == "__main__":
    run()
