"""Workers of the tool server as Ray actors; on the cluster that RAY_ADDRESS names, or else on this machine.

Actors ask for no cores, so that they never wait for a place beside those of a training run. What goes to and fro is
JSON text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from tasks.agent.toolbox.spec import Answering, Spec, UnaskedError, WorkerLostError
from tasks.errors import InputError

MOST_CALLS = 4096  # at the same time in one actor


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """Ray, for as long as the server lives."""
    ray.init(include_dashboard=False, log_to_driver=True, logging_level="warning", num_gpus=0)
    try:
        yield
    finally:
        ray.shutdown()


class _Actor:
    """Holds a toolbox in an actor's process."""

    async def open(self, spec: str) -> str:
        try:
            self._answering = Answering(Spec.load(json.loads(spec)))
        except InputError as error:
            return json.dumps({"error": str(error)})
        return json.dumps({"tools": self._answering.tools})

    async def ask(self, message: str) -> str:
        return json.dumps(await self._answering.answer(json.loads(message)))


class RayWorker:
    """A toolbox in a Ray actor; see `tasks.agent.toolbox.workers.Worker`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._actor: Any = None
        self._dead: str | None = None

    async def open(self) -> list[dict[str, Any]]:
        actor = ray.remote(_Actor).options(num_cpus=0, max_restarts=0, max_concurrency=MOST_CALLS)
        self._actor = actor.remote()
        try:
            opened = await self._answer(self._actor.open.remote(json.dumps(self._spec.dump())))
        except WorkerLostError as error:
            raise WorkerLostError(f"{error} while these tools were opened: {', '.join(self._spec.names)}") from error
        if "error" in opened:
            raise InputError(str(opened["error"]))
        return list(opened["tools"])

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._actor is None or self._dead is not None:
            raise UnaskedError(self._dead or "not open")
        return await self._answer(self._actor.ask.remote(json.dumps(message)))

    async def _answer(self, reference: Any) -> dict[str, Any]:
        try:
            return dict(json.loads(await reference))
        except RayActorError as error:
            self._dead = type(error).__name__
            raise WorkerLostError(self._dead) from error
        except (RayError, ValueError, TypeError) as error:
            raise WorkerLostError(type(error).__name__) from error

    async def kill(self) -> None:
        if self._actor is not None:
            await asyncio.to_thread(ray.kill, self._actor)
