"""The retrieval server's HTTP side: Search-R1's `POST /retrieve`, and `/health`, `/ready`, `/metrics`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.retrieval.service.answering import Answering
from tasks.retrieval.service.metrics import Metrics
from tasks.retrieval.service.requests import MOST_BYTES, MOST_QUERIES, RequestError, read, read_seconds
from tasks.retrieval.service.waiting import EndedError, FailedError, GoneError, Job

_AGAIN = {"retry-after": "1"}  # seconds
_CLOSE = {"connection": "close"}  # or the rest of the body would still be read


class _Counting:
    """Counts responses by status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(message["status"]).inc()
            await send(message)

        await self._app(scope, receive, counted if scope["type"] == "http" else send)


def _watch(receive: Receive, job: Job) -> asyncio.Task[None]:
    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        job.fail(GoneError("the client has gone"))

    return asyncio.create_task(watch())


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "content-type must be application/json")
    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                raise HTTPException(413, f"the body has more than {MOST_BYTES:,} bytes", _CLOSE)
    except ClientDisconnect:
        raise GoneError("the client has gone") from None
    return bytes(content)


def create_app(answering: Answering, *, retriever: str, topk: int) -> Starlette:
    """The server's application.

    Args:
        answering: what answers; somebody else starts its workers and ends them.
        retriever: its name, for `/ready`.
        topk: passages a query where a request does not say.
    """
    metrics = answering.metrics
    most = min(MOST_QUERIES, answering.queue)

    def facts() -> dict[str, Any]:
        pool = answering.pool
        if pool.opened is None or pool.ready < pool.workers:
            raise HTTPException(503, f"{pool.ready} of {pool.workers} workers are ready", _AGAIN)
        known = {"corpus_sha256": pool.opened.corpus_sha256, "passages": pool.opened.passages}
        return {**known, "retriever": retriever, "topk": topk, "workers": pool.workers}

    def check_corpus(headers: Mapping[str, str]) -> None:
        wanted, opened = headers.get("x-corpus-sha256"), answering.pool.opened
        if wanted is not None and opened is not None and wanted != opened.corpus_sha256:
            raise HTTPException(409, f"the index is of corpus {opened.corpus_sha256}, not {wanted[:64]}", _CLOSE)

    async def answer(request: Request) -> Response:
        now = asyncio.get_running_loop().time()
        check_corpus(request.headers)
        until = now + read_seconds(request.headers.get("x-deadline-seconds"), answering.seconds)
        try:
            async with asyncio.timeout_at(until):
                body = await _body(request)
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time", _CLOSE) from None
        asked = read(body, topk=topk, most=most)
        found = await answering.answer(asked, until, lambda job: _watch(request.receive, job))
        check_corpus(request.headers)  # where the index was not open yet when the request came
        return Response(b'{"result":[' + found + b"]}", media_type="application/json")

    async def retrieve(request: Request) -> Response:
        start = time.perf_counter()
        try:
            return await answer(request)
        except RequestError as error:
            raise HTTPException(error.status, error.detail) from None
        except GoneError:
            metrics.disconnected.inc()
            return Response(status_code=499)  # nobody reads it
        except FailedError as error:
            raise HTTPException(500, str(error)) from None
        except EndedError as error:
            raise HTTPException(503, str(error), _AGAIN) from None
        finally:
            metrics.request_seconds.observe(time.perf_counter() - start)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(_: Request) -> Response:
        return JSONResponse(facts())

    async def counted(_: Request) -> Response:
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)

    async def broken(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": "the server failed; its log says why"}, 500)

    app = Starlette(
        routes=[
            Route("/retrieve", retrieve, methods=["POST"]),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", counted),
        ],
        exception_handlers={HTTPException: refused, Exception: broken},
    )
    # A redirect would name whatever host the request names, and no client of Search-R1's follows it with its body.
    app.router.redirect_slashes = False
    app.add_middleware(_Counting, metrics=metrics)
    return app
