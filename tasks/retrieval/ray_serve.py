"""The retrieval server's application as a Ray Serve deployment: replicas on one machine or on a cluster.

    serve run tasks.retrieval.ray_serve:build index=/shared/index replicas=4

Each replica is the application of tasks/retrieval/service with one worker, a thread of its own process, and has its own
queue and cache; Ray starts a replica anew that is lost or no longer searches. The index must be in the same place on
every machine. What is not said comes from the project's parameters.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from ray import serve

from tasks import params as parameters
from tasks.retrieval.service.answering import Answering
from tasks.retrieval.service.server import create_app
from tasks.retrieval.service.settings import Settings
from tasks.retrieval.service.workers import ThreadWorker

MOST_REQUESTS = 4096  # at the same time in a replica; how many queries may wait in it, its own queue says


class _Replica:
    """One application and its worker."""

    async def __init__(self, line: str) -> None:  # type: ignore[misc]  # Ray awaits it
        self._settings = settings = Settings.load(line)
        self._answering = Answering(
            partial(ThreadWorker, settings.spec),
            workers=1,
            queue=settings.queue,
            seconds=settings.seconds,
            cache=settings.cache << 20,
        )
        await self._answering.pool.start()
        self._working = asyncio.create_task(self._answering.pool.run())

    def __serve_build_asgi_app__(self) -> Any:
        return create_app(self._answering, retriever=self._settings.retriever, topk=self._settings.topk)

    async def check_health(self) -> None:
        """For Ray: raises where no search is possible; a thread that hangs ends with its process alone."""
        if self._working.done() or self._answering.pool.restarts:
            raise RuntimeError("the worker is lost")


def application(settings: Settings, *, replicas: int, cores: float = 1) -> Any:
    """What `ray.serve.run` takes.

    Args:
        settings: what each replica serves.
        replicas: how many.
        cores: that Ray sets aside for each.
    """
    deployment = serve.deployment(
        serve.ingress()(_Replica),
        name="retrieval",
        num_replicas=replicas,
        ray_actor_options={"num_cpus": cores},
        max_ongoing_requests=MOST_REQUESTS,
        health_check_period_s=2,
    )
    return deployment.bind(settings.dump())


def build(arguments: dict[str, str]) -> Any:
    """The application of the command above.

    Args:
        arguments: `index`, `replicas`, `cores`, and `retriever`, `topk`, `seconds` in the place of the parameters'.

    Raises:
        InputError: an argument cannot be served.
    """
    content = parameters.resolve_in_force()
    kinds = {"retriever": str, "topk": int, "seconds": float}
    content["retrieval"] |= {key: kind(arguments[key]) for key, kind in kinds.items() if key in arguments}
    retrieval = parameters.typed(content, where="parameters").retrieval
    settings = Settings.of(retrieval, Path(arguments.get("index", "data/index")))
    return application(settings, replicas=int(arguments.get("replicas", "1")), cores=float(arguments.get("cores", "1")))
