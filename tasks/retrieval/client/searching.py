"""A retrieval server as a retriever: whatever becomes of it, a search comes back in time, with passages or as failed.

It speaks Search-R1's API, so that the server may be anybody's. A search changes nothing, so one that fails on the way
is tried again, at growing random intervals, within its time; once several have failed in a row the server is left
alone for a moment, and searches fail at once.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpcore

from tasks.errors import InputError
from tasks.retrieval.client.breaker import Breaker, BreakerOpenError
from tasks.retrieval.client.connections import Connections, Reply, TooLongError, seconds_left, within
from tasks.retrieval.client.replies import read_object, read_reply, reason, retry_after
from tasks.retrieval.client.tries import SearchFailedError, Tries
from tasks.retrieval.retriever import Hit

log = logging.getLogger("forager.retrieval")

OPENING = 10.0  # seconds for a server to say how it is
CORPUS = "x-corpus-sha256"  # header: the corpus that a client means
DEADLINE = "x-deadline-seconds"  # header: how long a client waits
_AGAIN = (502, 503, 504)
_KEY = "retrieval.server"

# What comes of an address where no server of this API is.
_FAILED = (httpcore.UnsupportedProtocol, httpcore.LocalProtocolError, ValueError, TypeError, SearchFailedError)


class RemoteRetriever:
    """A server of Search-R1's API; see `Retriever`.

    Args:
        address: `http://HOST:PORT`.
        seconds: of one search with all its tries.
        corpus_sha256: of the corpus that is to be searched; None: whichever the server has.
    """

    def __init__(self, address: str, seconds: float, corpus_sha256: str | None) -> None:
        self.address = address.rstrip("/")
        self._seconds, self._connections = seconds, Connections(self.address)
        self._headers = {"content-type": "application/json"} | ({CORPUS: corpus_sha256} if corpus_sha256 else {})
        self._again = Tries(seconds, lambda: self._count("retries"))
        self._breaker = Breaker(self.address, _answered, lambda: self._count("openings"))
        self._counting, self._counts = threading.Lock(), Counter[str]()

    @property
    def counters(self) -> Counter[str]:
        """What has happened so far: `searches`, `retries`, `openings` of the breaker, and `failures/KIND`."""
        with self._counting:
            return self._counts.copy()

    def session(self) -> RemoteRetriever:
        return self

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """See `Retriever`; all queries go in one request, but for blank ones, which find nothing anywhere.

        Raises:
            UnavailableError: the server cannot be had, is overloaded, does not answer in time, or answers nonsense.
            InputError: it has another corpus by now.
        """
        asked = [_plain(query) for query in queries]
        sent = [query for query in asked if query]
        if not sent:
            return [[] for _ in asked]
        self._count("searches")
        try:
            with self._breaker.guarded(), within(self._seconds):
                found = iter(self._tries(sent, topk))
            return [next(found) if query else [] for query in asked]
        except SearchFailedError as error:
            self._count(f"failures/{error.kind}")
            raise
        except BreakerOpenError:
            self._count("failures/open")
            why = f"{self.address} is left alone for a moment: it has failed too often"
            raise SearchFailedError("open", why) from None

    def check(self, retriever: str, topk: int) -> None:
        """Make sure that the server is ready, searches what it should, and takes searches of `topk`: it makes one.

        Args:
            retriever: as in `retrieval.retriever`.
            topk: passages a query.

        Raises:
            InputError: it does not answer, is not ready, searches another corpus or otherwise, or refuses the search.
        """
        try:
            with within(OPENING):
                reply = self._ask("GET", "/ready")
                said = read_object(reply)
                if reply.status == 503:
                    raise self._wrong(f"is not ready: {reason(reply)}")
                if reply.status == 409:
                    raise self._other_corpus(reply)
                known = reply.status == 200 and "corpus_sha256" in said
                if known:
                    self._compare(said, retriever)
                self._try(topk, known)
        except _FAILED as error:
            what = f"no retrieval server answers at {self.address}: {error}"
            raise InputError(what, where=_KEY, mend="start one with python -m tasks.retrieval_server") from error
        if not known:
            log.warning("the server at %s does not say which corpus it searches: nobody can check it", self.address)

    def _try(self, topk: int, known: bool) -> None:
        """Make a search, since what is refused now would be refused every time; `known`: the server is ready."""
        try:
            self._tries(["a"], topk)
        except SearchFailedError as error:
            if error.kind == "refused":
                mend = f"name a server of Search-R1's API that takes retrieval.topk, {topk}"
                raise InputError(f"the retrieval server at {error}", where=_KEY, mend=mend) from error
            # A server that is overloaded just now is no wrong one: the searches to come have their own time.
            if not (known and error.kind in ("busy", "timeout")):
                raise
            log.warning("a first search has failed: %s", error)

    def _compare(self, said: Mapping[str, Any], retriever: str) -> None:
        corpus, theirs = self._headers.get(CORPUS), said["corpus_sha256"]
        if corpus is not None and corpus != theirs:
            raise self._wrong(f"searches corpus {str(theirs)[:12]}, not {corpus[:12]}", "start it on this index")
        if said.get("retriever", retriever) != retriever:
            mend = "start it with --retriever, or change retrieval.retriever"
            raise self._wrong(f"searches by {said['retriever']!r}, not {retriever!r}", mend)

    def _tries(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Search, inside `within`, by as many tries as it takes.

        Raises:
            SearchFailedError: see `Tries`.
            InputError: the server has another corpus.
        """
        content = json.dumps({"queries": queries, "topk": topk, "return_scores": True}).encode()
        return self._again(lambda: self._retrieve(content, len(queries), topk))

    def _retrieve(self, content: bytes, queries: int, topk: int) -> list[list[Hit]]:
        """One try.

        Raises:
            SearchFailedError: it has failed.
            InputError: the server has another corpus.
        """
        # So that our own server drops what nobody waits for any more.
        reply = self._ask("POST", "/retrieve", content, {DEADLINE: f"{seconds_left():.3f}"})
        if reply.status == 409 and CORPUS in self._headers:
            raise self._other_corpus(reply)
        if reply.status in _AGAIN:
            busy = f"{self.address} is busy: {reason(reply)}"
            raise SearchFailedError("busy", busy, again=True, after=retry_after(reply))
        if 400 <= reply.status < 500:
            raise SearchFailedError("refused", f"{self.address} refuses the search: {reply.status} {reason(reply)}")
        if reply.status != 200:
            raise SearchFailedError("nonsense", f"{self.address} answers with status {reply.status}: {reason(reply)}")
        try:
            return read_reply(reply.content, queries, topk)
        except ValueError as error:
            raise SearchFailedError("nonsense", f"{self.address} answers nonsense: {error}") from error

    def _ask(self, method: str, path: str, content: bytes = b"", more: Mapping[str, str] | None = None) -> Reply:
        try:
            return self._connections.ask(method, path, content, {**self._headers, **(more or {})})
        except httpcore.TimeoutException as error:
            raise SearchFailedError("timeout", f"{self.address} has not answered in time") from error
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            raise SearchFailedError("connection", f"{self.address}: {error or repr(error)}", again=True) from error
        except TooLongError as error:
            raise SearchFailedError("nonsense", f"{self.address}: {error}") from error

    def _other_corpus(self, reply: Reply) -> InputError:
        return self._wrong(f"searches another corpus: {reason(reply)}", "start it on this index")

    def _wrong(self, what: str, mend: str | None = None) -> InputError:
        return InputError(f"the retrieval server at {self.address} {what}", where=_KEY, mend=mend)

    def _count(self, name: str) -> None:
        with self._counting:
            self._counts[name] += 1


def open_client(address: str, retrieval: Any, corpus_sha256: str | None) -> RemoteRetriever:
    """Open the server at an address.

    Args:
        address: `http://HOST:PORT`.
        retrieval: the section of that name: `seconds`, `retriever` and `topk` are used.
        corpus_sha256: of the corpus that it must search; None: any.

    Raises:
        InputError: as `RemoteRetriever.check`.
    """
    client = RemoteRetriever(address, retrieval.seconds, corpus_sha256)
    client.check(retrieval.retriever, retrieval.topk)
    return client


def _plain(query: str) -> str:
    """A query that every server takes as an index in the process does; empty where it is blank.

    Policies write what is no text: half of a surrogate pair, which JSON can carry and is no character, and NUL.
    """
    return query.encode("utf-8", "replace").decode().replace("\0", " ").strip()


def _answered(error: BaseException) -> bool:
    """Whether a search that failed has been answered all the same: the server is well."""
    return isinstance(error, InputError) or (isinstance(error, SearchFailedError) and error.kind == "refused")
