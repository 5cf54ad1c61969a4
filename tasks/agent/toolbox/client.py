"""Tools behind a server: whatever becomes of it, a call comes back in time, as a result or as a failure."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx

from tasks.agent.toolbox import wire
from tasks.agent.toolbox.base import Result
from tasks.agent.toolbox.running import Limits, fitted
from tasks.errors import InputError

if TYPE_CHECKING:
    from tasks.agent.protocols.base import Call

log = logging.getLogger("forager.tools")

MARGIN = 5.0  # seconds beyond a call's own: the server has 2 of them to find out that its worker is hung
MOST_BYTES = 1 << 24  # of a reply; one with 65,536 characters takes 0.4 MB at most
# A server that is gone, slow, or says what no tool server says.
_BROKEN = (httpx.HTTPError, OSError, TimeoutError, ValueError, KeyError, TypeError, RecursionError)
# Servers close idle connections after 5 s by default: one that is kept for less never breaks under a call.
_POOL = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2.0)


class ToolClient:
    """Tools behind the server at an address; see `Tools`.

    A call is never sent twice, since a tool may change something.

    Args:
        address: `http://HOST:PORT`.
        names: of the tools that may be called; the server may have others.
        limits: of one call; a result that is longer is cut here too.

    Raises:
        InputError: the server does not answer, is not ready, or lacks a tool.
    """

    def __init__(self, address: str, names: Sequence[str], limits: Limits) -> None:
        self._address, self._limits = address.rstrip("/"), limits
        self.names = tuple(names)
        offered = {tool["name"]: tool for tool in offered_tools(self._address)}
        missing = [name for name in self.names if name not in offered]
        if missing:
            raise InputError(
                f"the tool server at {self._address} has no tool {missing[0]!r}",
                where="tools.names",
                mend=f"it has: {', '.join(offered)}",
            )
        self._tools = [offered[name] for name in self.names]
        # Evaluation plays in one event loop after the other, and a connection belongs to the loop that opened it.
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [tool["schema"] for tool in self._tools]

    async def call(self, trajectory_id: str, calls: Sequence[Call]) -> list[Result]:
        taken, surplus = calls[: self._limits.parallel], calls[self._limits.parallel :]
        results = await asyncio.gather(*(self._one(trajectory_id, call) for call in taken))
        return [*results, *(Result(failure="surplus") for _ in surplus)]

    async def release(self, trajectory_id: str) -> None:
        try:
            await self._post({"trajectory_ids": [trajectory_id], "actions": [""], "finish": [True]})
        except _BROKEN as error:
            log.warning("the tool server could not free trajectory %s: %r", trajectory_id, error)

    async def _one(self, trajectory_id: str, call: Call) -> Result:
        start = time.perf_counter()
        if call.tool not in self.names:
            return Result(failure="unknown")
        try:
            body = {
                "trajectory_ids": [trajectory_id],
                "actions": [wire.write_action(call)],
                "finish": [False],
                "extra_fields": [{"details": True}],
            }
            reply = await self._post(body)
            (result,) = wire.load_results(reply["observations"])
        except _BROKEN as error:
            log.warning("a call of %s came back from the tool server as %r", call.tool, error)
            result = Result(failure="worker")
        if result.failure is None:
            cut = fitted(result, self._limits.characters)
            result = cut if isinstance(cut, Result) else Result(failure=cut)
        else:
            result = Result(failure=result.failure)
        return result.after(time.perf_counter() - start)

    async def _post(self, body: dict[str, Any]) -> Any:
        """Send a request of `/get_observation`; its reply.

        Raises:
            HTTPError: no answer, or one that is no success.
            TimeoutError: it took longer than a call and the margin.
            ValueError: the answer is no JSON, or too long.
            InputError: a tool has found that the parameters are wrong.
        """
        async with asyncio.timeout(self._limits.seconds + MARGIN):
            request = self._client().stream("POST", "/get_observation", content=json.dumps(body).encode())
            async with request as response:
                if response.status_code != httpx.codes.CONFLICT:
                    response.raise_for_status()
                content = bytearray()
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MOST_BYTES:
                        raise ValueError(f"a reply of more than {MOST_BYTES:,} bytes")
        reply = json.loads(content)
        if response.status_code == httpx.codes.CONFLICT:
            raise InputError(str(reply["detail"]), where=f"the tool server at {self._address}")
        return reply

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients = {one: client for one, client in self._clients.items() if not one.is_closed()}
            self._clients[loop] = httpx.AsyncClient(
                base_url=self._address,
                headers={"content-type": "application/json"},
                limits=_POOL,
                timeout=None,  # noqa: S113  every request runs under a time-out of its own
                trust_env=False,  # a proxy knows no loopback address
            )
        return self._clients[loop]


def offered_tools(address: str) -> list[dict[str, Any]]:
    """Tools of a server as objects `{name, schema}`.

    Raises:
        InputError: it does not answer, or is not ready.
    """
    try:
        reply = httpx.get(f"{address}/tools", timeout=10.0, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # the last of a host's name
        raise InputError(
            f"no tool server answers at {address}: {error or repr(error)}", where="tools.server", mend="start one"
        ) from error
    if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise InputError(f"the tool server at {address} is not ready: {reply.text}", where="tools.server")
    try:
        return [
            {"name": str(tool["name"]), "schema": dict(tool["schema"])}
            for tool in reply.raise_for_status().json()["tools"]
        ]
    except (httpx.HTTPError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"what answers at {address} is no tool server of this project",
            where="tools.server",
            mend="start one with python -m tasks.tool_server",
        ) from error
