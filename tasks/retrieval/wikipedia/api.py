"""Calls of MediaWiki's search, made as its etiquette asks.

One call at a time for a process and a host; when the host asks for a pause (429, 503, `maxlag`), no call of this
process reaches it before that is over. One call finds the pages of a query and brings their beginnings; a second is
made only where the first did not bring all of them, or was refused for a while.

Sources: https://www.mediawiki.org/wiki/API:Etiquette, Manual:Maxlag_parameter, API:Continue, Extension:TextExtracts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from tasks.errors import UnavailableError
from tasks.retrieval.wikipedia.page_cache import Answers
from tasks.retrieval.wikipedia.replies import Page, Reply, ReplyError, merged, pause, read

log = logging.getLogger("forager.retrieval")

MOST_BYTES = 1 << 22  # of a reply, unpacked; 20 pages take some 100 kB
PAUSE = 5.0  # seconds where the host names none: what MediaWiki advises for maxlag
_BUSY = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_FORM = {
    "action": "query",
    "format": "json",
    "formatversion": "2",
    "redirects": "1",
    "maxlag": "5",
    "generator": "search",
    "gsrnamespace": "0",
    "prop": "extracts|info",
    "exintro": "1",
    "explaintext": "1",
    "exlimit": "max",
    "inprop": "url",
}


@dataclass
class _Host:
    """What all callers of this process share about a host."""

    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    paused_until: float = 0.0  # by time.monotonic


_hosts: dict[str, _Host] = {}
os.register_at_fork(after_in_child=_hosts.clear)  # a turn belongs to its event loop


class Calls:
    """The calls that may still be made for one question; taken in the event loop alone."""

    def __init__(self, most: int) -> None:
        self._most, self.left = most, most

    def require(self) -> None:
        """Make sure that one is left.

        Raises:
            UnavailableError: none is.
        """
        if self.left == 0:
            raise UnavailableError(f"all {self._most} calls of the question are made", spent=True)

    def take(self) -> None:
        """Count a call that is made now; see `require`."""
        self.require()
        self.left -= 1


class _BusyError(Exception):
    """The host asks for a pause, which has begun."""


class Api:
    """The search of one wiki.

    Args:
        endpoint: address of its `api.php`.
        client: for calls to it.
        answers: takes what was found, and may have it already.
        count: takes the name of what is counted, once for each time.
    """

    def __init__(
        self, endpoint: str, client: httpx.AsyncClient, answers: Answers, count: Callable[[str], None]
    ) -> None:
        self._endpoint, self._client, self._answers, self._count = endpoint, client, answers, count
        self._host = httpx.URL(endpoint).netloc.decode()

    async def search(self, query: str, topk: int, calls: Calls, deadline: float) -> list[Page]:
        """Pages with a text, best first.

        Args:
            query: as `replies.plain` makes it.
            topk: pages, at most `params.searching.WIKIPEDIA_PAGES`.
            calls: what may still be called.
            deadline: by time.monotonic; whoever waits for this ends it then.

        Raises:
            UnavailableError: no call is left, or the host cannot answer now.
        """
        host = _hosts.setdefault(self._host, _Host())
        self._require_room(host, deadline)
        async with host.turn:
            # Another may have asked the same while this one waited.
            known = await asyncio.to_thread(self._answers.look_up, query, topk)
            if known is not None:
                self._count("cached")
                return known
            reply = await self._whole(host, {**_FORM, "gsrsearch": query, "gsrlimit": str(topk)}, calls, deadline)
            found = sorted((page for page in reply.pages.values() if page.text), key=lambda page: page.rank)[:topk]
            if reply.rest or not reply.sure:
                self._count("partial")
            else:
                await asyncio.to_thread(self._answers.keep, query, topk, found)
            return found

    async def _whole(self, host: _Host, form: Mapping[str, str], calls: Calls, deadline: float) -> Reply:
        """The reply to a query, continued where texts are missing and the call for them can be made."""
        reply = await self._ask(host, form, calls, deadline)
        if not reply.rest:
            return reply
        try:
            return merged(reply, await self._ask(host, {**form, **reply.rest}, calls, deadline))
        except UnavailableError as error:
            if not any(page.text for page in reply.pages.values()):
                raise
            log.warning("%s: the texts of some pages cannot be had: %s", self._host, error)
            return reply

    async def _ask(self, host: _Host, form: Mapping[str, str], calls: Calls, deadline: float) -> Reply:
        await self._sit_out(host, deadline)
        calls.take()
        try:
            return await self._call(host, form)
        except _BusyError as error:
            if calls.left == 0:
                raise UnavailableError(f"{error}; no call is left to ask again") from None
        await self._sit_out(host, deadline)
        calls.take()
        try:
            return await self._call(host, form)
        except _BusyError as error:
            raise UnavailableError(f"{error}, twice") from None

    def _require_room(self, host: _Host, deadline: float) -> None:
        if host.paused_until > max(deadline, time.monotonic()):
            self._count("paused")
            raise UnavailableError(f"{self._host} wants no call for {host.paused_until - time.monotonic():.0f} s")

    async def _sit_out(self, host: _Host, deadline: float) -> None:
        while (wait := host.paused_until - time.monotonic()) > 0:
            self._require_room(host, deadline)
            await asyncio.sleep(wait)

    async def _call(self, host: _Host, form: Mapping[str, str]) -> Reply:
        """One call.

        Raises:
            UnavailableError: it failed.
            _BusyError: the host asks for a pause.
        """
        self._count("calls")
        try:
            status, headers, content = await self._get(form)
            if status in _BUSY:
                raise self._paused(host, headers, f"status {status}")
            if status != httpx.codes.OK:
                raise self._failed("status", f"status {status}")
            return read(content)
        except ReplyError as error:
            if error.passing:
                raise self._paused(host, headers, str(error)) from None
            raise self._failed("reply", str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self._failed("network", f"{type(error).__name__} {error}".strip()) from error
        except asyncio.CancelledError:
            self._failed("timeout", "no answer in time")
            raise

    async def _get(self, form: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        async with self._client.stream("GET", self._endpoint, params=dict(form)) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise ReplyError(f"a reply of more than {MOST_BYTES:,} bytes")
        return response.status_code, response.headers, bytes(content)

    def _failed(self, kind: str, why: str) -> UnavailableError:
        self._count(kind)
        log.warning("a call of %s failed: %s", self._host, why)
        return UnavailableError(f"{self._host}: {why}")

    def _paused(self, host: _Host, headers: Mapping[str, str], why: str) -> _BusyError:
        seconds = pause(headers.get("retry-after"), PAUSE)
        host.paused_until = max(host.paused_until, time.monotonic() + seconds)
        self._count("busy")
        log.warning("a call of %s failed: %s; no call for %.0f s", self._host, why, seconds)
        return _BusyError(f"{self._host}: {why}, a pause of {seconds:.0f} s")
