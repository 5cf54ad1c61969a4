"""The client's two modes behind one form: embedded in a folder, and against a cluster."""

from __future__ import annotations

import atexit
import importlib.util
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.calls import in_time

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

FOLDER = "qdrant"  # of an index
KEY = "QDRANT_API_KEY"
MEND = "build it with `dvc repro index`"

_opened: weakref.WeakValueDictionary[tuple[int, int], QdrantClient] = weakref.WeakValueDictionary()
_opening = threading.Lock()


@atexit.register
def _close() -> None:
    """Close what is open: the client tries it as late as when the interpreter can import nothing any more."""
    for client in list(_opened.values()):
        client.close()


class Embedded:
    """A collection in a folder; whoever opens it in this process shares one client, and with it the folder's lock.

    A search only reads, so threads need no lock of their own.
    """

    def __init__(self, folder: Path) -> None:
        from qdrant_client import QdrantClient

        if not (folder / "meta.json").is_file():
            raise InputError("no collection here", where=str(folder), mend=MEND)
        stat = folder.stat()
        with _opening:
            client = _opened.get((stat.st_dev, stat.st_ino))
            if client is None:
                try:
                    client = QdrantClient(path=str(folder))
                except RuntimeError as error:
                    if "already accessed" not in str(error):
                        raise
                    raise InputError(
                        "another process has opened this collection",
                        where=str(folder),
                        mend="share it by retrieval.server: start with workers: 1, or put it on a cluster "
                        "(retrieval.qdrant.url)",
                    ) from None
                _opened[stat.st_dev, stat.st_ino] = client
        self._client = client

    def collection(self, name: str) -> tuple[str, dict[str, Any]]:
        """Name and description of a collection; empty where there is none."""
        if not self._client.collection_exists(name):
            return name, {}
        return name, _described(self._client.get_collection(name), self._client.count(name, exact=True))

    def ask(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[models.QueryResponse]:
        """One reply for each request."""
        return self._client.query_batch_points(collection, requests)


class Cluster:
    """A collection on a cluster."""

    def __init__(self, retrieval: Any) -> None:
        from qdrant_client import AsyncQdrantClient

        self._url, self._seconds = retrieval.qdrant.url, retrieval.seconds
        self._client = AsyncQdrantClient(**connection(self._url, self._seconds))

    def collection(self, alias: str) -> tuple[str, dict[str, Any]]:
        """Name and description of the collection that an alias names now; empty where there is none.

        The name is kept: an alias that is switched while this process searches would bring another corpus.
        """
        with explained(self._url):
            return in_time(self._collection(alias), self._seconds)

    async def _collection(self, alias: str) -> tuple[str, dict[str, Any]]:
        aliases = {one.alias_name: one.collection_name for one in (await self._client.get_aliases()).aliases}
        name = aliases.get(alias, alias)
        if not await self._client.collection_exists(name):
            return name, {}
        return name, _described(await self._client.get_collection(name), await self._client.count(name, exact=True))

    def ask(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[models.QueryResponse]:
        """One reply for each request.

        Raises:
            UnavailableError: the cluster does not answer in time, or answers with an error.
        """
        try:
            return in_time(self._client.query_batch_points(collection, requests), self._seconds)
        except _failures() as error:
            raise UnavailableError(f"qdrant at {self._url}: {_said(error)}") from error


def require_library() -> None:
    """Make sure that the client is installed; it is an extra.

    Raises:
        InputError: it is not.
    """
    if importlib.util.find_spec("qdrant_client") is None:
        raise InputError("qdrant-client is not installed", where="Qdrant", mend="install the extra `qdrant`")


def _described(info: models.CollectionInfo, count: models.CountResult) -> dict[str, Any]:
    return {**(info.config.metadata or {}), "points": count.count}


def connection(url: str, seconds: float) -> dict[str, Any]:
    """Arguments of a client of a cluster.

    Raises:
        InputError: the address is none, or the API key would be sent for anyone to read.
    """
    where = "retrieval.qdrant.url"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"{url!r} is no address: {error}", where=where) from None
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(f"{url!r} is no address", where=where, mend="write https://HOST:PORT")
    key, local = os.environ.get(KEY), _is_loopback(host)
    if key and parts.scheme == "http" and not local:
        raise InputError(f"{KEY} is set, and over http anyone could read it", where=where, mend="use https")
    # The check of versions would be a call of its own, in a thread without a deadline.
    return {
        "url": url,
        "api_key": key or None,
        "timeout": max(1, round(seconds)),
        "check_compatibility": False,
        "trust_env": not local,  # a proxy knows no loopback address
    }


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _failures() -> tuple[type[Exception], ...]:
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    # The last two: the client asserts that a reply has a result, and lets some replies that are no JSON pass as such.
    return (ApiException, QdrantException, OSError, TimeoutError, AssertionError, ValueError)


def _said(error: Exception) -> str:
    source = getattr(error, "source", error)
    return f"{type(source).__name__} {source}".strip().partition("\n")[0][:300]


@contextmanager
def explained(url: str) -> Iterator[None]:
    """What goes wrong with a cluster that is asked before anything is searched, as one line."""
    try:
        yield
    except _failures() as error:
        raise InputError(
            f"the cluster at {url} does not answer as it should: {_said(error)}", where="retrieval.qdrant.url"
        ) from error
