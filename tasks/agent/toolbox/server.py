"""The tool server's HTTP side: verl-tool's `POST /get_observation`, and `/tools`, `/health`, `/ready`, `/metrics`."""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from tasks.agent.protocols.base import Observation, Protocol
from tasks.agent.toolbox import wire
from tasks.agent.toolbox.base import Failure
from tasks.agent.toolbox.pool import Pool
from tasks.agent.toolbox.requests import Item, RequestError, read_items, read_turn
from tasks.errors import InputError

MOST_BYTES = 1 << 22  # of a request; while a turn of that length is read, the server does nothing else
# A call with one of these was none: it counts as an action that was not valid.
_NO_CALL = ("unknown", "arguments", "surplus")

Answer = tuple[str | dict[str, Any], bool, bool]  # observation, done, valid


class _Answering:
    """Answers items; remembers, by trajectory, what numbers the protocol has shown passages under."""

    def __init__(self, pool: Pool, protocol: Protocol) -> None:
        self._pool, self._protocol = pool, protocol
        self._numbers: dict[str, dict[str, int]] = {}
        pool.on_release = lambda trajectory_id: self._numbers.pop(trajectory_id, None)

    async def answer(self, items: list[Item]) -> list[Answer]:
        """Trajectories side by side; the items of one, in their order."""
        turns: dict[str, list[int]] = {}
        for row, item in enumerate(items):
            turns.setdefault(item.trajectory_id, []).append(row)
        answers: dict[int, Answer] = {}

        async def one(rows: list[int]) -> None:
            for row in rows:
                answers[row] = await self._one(items[row])

        await asyncio.gather(*(one(rows) for rows in turns.values()))
        return [answers[row] for row in range(len(items))]

    async def _one(self, item: Item) -> Answer:
        if item.finish:
            await self._pool.release(item.trajectory_id)
            return "", True, True
        if item.call is None:
            return await self._shown(item)
        (result,) = await self._pool.call(item.trajectory_id, [item.call])
        (observation,) = wire.dump_results([result])
        return observation, result.done, result.failure not in _NO_CALL

    async def _shown(self, item: Item) -> Answer:
        protocol = self._protocol
        action = read_turn(item.action, protocol)
        if action.kind == "answer":
            return "", True, True
        if action.kind == "invalid":
            return _text(protocol.say(protocol.correction, "notice")), False, False
        results = await self._pool.call(item.trajectory_id, action.calls)
        observation = protocol.show(results, self._numbers.setdefault(item.trajectory_id, {}))
        valid = all(result.failure not in _NO_CALL for result in results)
        return _text(observation), any(result.done for result in results), valid


def _text(observation: Observation) -> str:
    """An observation as one text; where a chat template frames it, its sender does that."""
    if observation.role is None:
        return observation.opening + "".join(observation.bodies) + observation.closing + observation.notice
    return "\n".join(filter(None, (*observation.bodies, observation.notice)))


def metrics(pool: Pool) -> str:
    """What the pool has counted, in Prometheus' text format."""
    names = [*(tool["name"] for tool in pool.tools), "unknown"]
    series: list[tuple[str, str, str, dict[str, float]]] = [
        ("calls_total", "counter", "tool", {name: pool.calls[name] for name in names}),
        ("seconds_total", "counter", "tool", {name: pool.seconds[name] for name in names}),
        ("failures_total", "counter", "kind", {kind: pool.failures[kind] for kind in get_args(Failure)}),
        ("worker_restarts_total", "counter", "", {"": pool.restarts}),
        ("trajectories_lost_total", "counter", "", {"": pool.lost}),
        ("trajectories_expired_total", "counter", "", {"": pool.expired}),
        ("trajectories", "gauge", "", {"": pool.trajectories}),
        ("workers", "gauge", "", {"": pool.workers}),
        ("workers_ready", "gauge", "", {"": pool.opened}),
    ]
    lines = []
    for name, kind, label, values in series:
        lines.append(f"# TYPE forager_tool_{name} {kind}")
        for of, value in values.items():
            labels = f'{{{label}="{of}"}}' if label else ""
            lines.append(f"forager_tool_{name}{labels} {value:.15g}")
    return "\n".join(lines) + "\n"


async def _body(request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # No page in a browser may send this type to another host unasked, so none can call tools behind a user's back.
        raise HTTPException(415, "content-type must be application/json")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            # Closed, or the rest of the body would still be read.
            raise HTTPException(413, f"the body has more than {MOST_BYTES:,} bytes", {"connection": "close"})
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body must be JSON") from None


def create_app(pool: Pool, protocol: Protocol) -> FastAPI:
    """The server's application.

    Args:
        pool: the workers; somebody else starts and closes them.
        protocol: how clients that do not ask for details write actions and are shown observations.
    """
    app = FastAPI(title="Forager's tools", docs_url=None, redoc_url=None, openapi_url=None)
    answering = _Answering(pool, protocol)

    @app.post("/get_observation")
    async def get_observation(request: Request) -> JSONResponse:
        body = await _body(request)
        try:
            answers = await answering.answer(read_items(body))
        except RequestError as error:
            raise HTTPException(400, str(error)) from None
        except InputError as error:
            raise HTTPException(409, str(error)) from None
        observations, dones, valids = map(list, zip(*answers, strict=True))
        return JSONResponse({"observations": observations, "dones": dones, "valids": valids})

    @app.get("/tools")
    async def tools() -> dict[str, Any]:
        _require_ready()
        return {"tools": pool.tools}

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/ready")
    async def ready() -> dict[str, int]:
        _require_ready()
        return {"workers": pool.workers}

    @app.get("/metrics")
    async def counted() -> Response:
        return Response(metrics(pool), media_type="text/plain; version=0.0.4")

    def _require_ready() -> None:
        if pool.opened < pool.workers:
            raise HTTPException(503, f"{pool.opened} of {pool.workers} workers are ready")

    return app
