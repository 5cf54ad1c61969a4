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
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpcore
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.breaker import Breaker, ClosedError
from tasks.retrieval.connections import Connections, Reply, TooLongError, seconds_left, within
from tasks.retrieval.replies import read_reply
from tasks.retrieval.retriever import Hit

log = logging.getLogger("forager.retrieval")

OPENING = 10.0  # seconds for a server to say how it is
CORPUS = "x-corpus-sha256"  # header: the corpus that a client means
DEADLINE = "x-deadline-seconds"  # header: how long a client waits
_AGAIN = (502, 503, 504)
_KEY = "retrieval.server"
# Full jitter: clients that have failed together do not come back together.
_jitter = wait_random_exponential(multiplier=0.05, max=1.0)

Kind = Literal["connection", "timeout", "busy", "refused", "nonsense", "open"]


class FailedError(UnavailableError):
    """A search, or one try of it, has failed.

    Attributes:
        kind: no connection, or a broken one; the time was up; 502, 503 or 504; any other status of 4xx; an answer that
            is none; not asked at all.
        again: whether another try may succeed.
        after: seconds that the server wants to be left alone before.
    """

    def __init__(self, kind: Kind, why: str, *, again: bool = False, after: float = 0.0) -> None:
        super().__init__(why)
        self.kind, self.again, self.after = kind, again, after


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
        self._again = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, FailedError) and error.again),
            wait=_wait,
            stop=stop_before_delay(seconds),
            before_sleep=lambda state: self._count("retries"),
            reraise=True,
        )
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
        content = json.dumps({"queries": sent, "topk": topk, "return_scores": True}).encode()
        self._count("searches")
        try:
            with self._breaker.guarded(), within(self._seconds):
                found = iter(self._again(self._retrieve, content, len(sent), topk))
            return [next(found) if query else [] for query in asked]
        except FailedError as error:
            self._count(f"failures/{error.kind}")
            raise
        except ClosedError:
            self._count("failures/open")
            raise FailedError("open", f"{self.address} is left alone for a moment: it has failed too often") from None

    def check(self, retriever: str) -> None:
        """Make sure that the server is ready, and searches what it should.

        Args:
            retriever: as in `retrieval.retriever`.

        Raises:
            InputError: it does not answer, is not ready, or searches another corpus or otherwise.
        """
        try:
            with within(OPENING):
                reply = self._ask("GET", "/ready")
                said = _json(reply)
                if reply.status == 200 and "corpus_sha256" in said:
                    self._compare(said, retriever)
                elif reply.status == 503:
                    raise InputError(f"the retrieval server at {self.address} is not ready: {_why(reply)}", where=_KEY)
                elif reply.status == 409:
                    raise self._other_corpus(reply)
                else:
                    self._try()
        except (FailedError, httpcore.UnsupportedProtocol, httpcore.LocalProtocolError, ValueError, TypeError) as error:
            raise InputError(
                f"no retrieval server answers at {self.address}: {error}",
                where=_KEY,
                mend="start one with python -m tasks.retrieval_server",
            ) from error

    def _compare(self, said: Mapping[str, Any], retriever: str) -> None:
        corpus, theirs = self._headers.get(CORPUS), said["corpus_sha256"]
        if corpus is not None and corpus != theirs:
            raise InputError(
                f"the retrieval server at {self.address} searches corpus {str(theirs)[:12]}, not {corpus[:12]}",
                where=_KEY,
                mend="start it on this index",
            )
        if said.get("retriever", retriever) != retriever:
            raise InputError(
                f"the retrieval server at {self.address} searches by {said['retriever']!r}, not {retriever!r}",
                where=_KEY,
                mend="start it with --retriever, or change retrieval.retriever",
            )

    def _try(self) -> None:
        """A server that cannot say what it has, as Search-R1's own: it must at least answer."""
        content = json.dumps({"queries": ["a"], "topk": 1, "return_scores": True}).encode()
        self._retrieve(content, 1, 1)
        log.warning("the server at %s does not say which corpus it searches: nobody can check it", self.address)

    def _retrieve(self, content: bytes, queries: int, topk: int) -> list[list[Hit]]:
        """One try.

        Raises:
            FailedError: it has failed.
            InputError: the server has another corpus.
        """
        # So that our own server drops what nobody waits for any more.
        reply = self._ask("POST", "/retrieve", content, {DEADLINE: f"{seconds_left():.3f}"})
        if reply.status == 409 and CORPUS in self._headers:
            raise self._other_corpus(reply)
        if reply.status in _AGAIN:
            raise FailedError("busy", f"{self.address} is busy: {_why(reply)}", again=True, after=_retry_after(reply))
        if 400 <= reply.status < 500:
            raise FailedError("refused", f"{self.address} refuses the search: {reply.status} {_why(reply)}")
        if reply.status != 200:
            raise FailedError("nonsense", f"{self.address} answers with status {reply.status}: {_why(reply)}")
        try:
            return read_reply(reply.content, queries, topk)
        except ValueError as error:
            raise FailedError("nonsense", f"{self.address} answers nonsense: {error}") from error

    def _ask(self, method: str, path: str, content: bytes = b"", more: Mapping[str, str] | None = None) -> Reply:
        try:
            return self._connections.ask(method, path, content, {**self._headers, **(more or {})})
        except httpcore.TimeoutException as error:
            raise FailedError("timeout", f"{self.address} has not answered in time") from error
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            raise FailedError("connection", f"{self.address}: {error or repr(error)}", again=True) from error
        except TooLongError as error:
            raise FailedError("nonsense", f"{self.address}: {error}") from error

    def _other_corpus(self, reply: Reply) -> InputError:
        what = f"the retrieval server at {self.address} searches another corpus: {_why(reply)}"
        return InputError(what, where=_KEY, mend="start it on this index")

    def _count(self, name: str) -> None:
        with self._counting:
            self._counts[name] += 1


def open_client(address: str, retrieval: Any, corpus_sha256: str | None) -> RemoteRetriever:
    """Open the server at an address.

    Args:
        address: `http://HOST:PORT`.
        retrieval: the section of that name: `seconds` and `retriever` are used.
        corpus_sha256: of the corpus that it must search; None: any.

    Raises:
        InputError: it does not answer, is not ready, or searches another corpus or otherwise.
    """
    client = RemoteRetriever(address, retrieval.seconds, corpus_sha256)
    client.check(retrieval.retriever)
    return client


def _plain(query: str) -> str:
    """A query that every server takes as an index in the process does; empty where it is blank.

    Policies write what is no text: half of a surrogate pair, which JSON can carry and is no character, and NUL.
    """
    return query.encode("utf-8", "replace").decode().replace("\0", " ").strip()


def _answered(error: BaseException) -> bool:
    """Whether a search that failed has been answered all the same: the server is well."""
    return isinstance(error, InputError) or (isinstance(error, FailedError) and error.kind == "refused")


def _wait(state: RetryCallState) -> float:
    """Seconds until the next try; where the server has said how long, that and no less."""
    error = state.outcome.exception() if state.outcome is not None else None
    return _jitter(state) + (error.after if isinstance(error, FailedError) else 0.0)


def _retry_after(reply: Reply) -> float:
    """Seconds that `Retry-After` asks for, as a number or as a date; 0 without one."""
    value = reply.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one that does not say its zone
        return 0.0


def _json(reply: Reply) -> Mapping[str, Any]:
    """A reply's object; an empty one where it is none."""
    try:
        content = json.loads(reply.content)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _why(reply: Reply) -> str:
    """What a reply says, in one short line."""
    said = str(_json(reply).get("detail") or reply.content[:1000].decode("utf-8", "replace"))
    return " ".join(said.split())[:200]
