"""A cache on disk, for all processes of a workspace: what was used least recently goes first.

SQLite's write-ahead log keeps the file whole when a process is killed. A cache that fails costs calls and never a
search: it is logged and searched without. A file that is broken is set aside, and a new one is begun.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from tasks.retrieval.wikipedia.replies import Page

log = logging.getLogger("forager.retrieval")

T = TypeVar("T")
ENTRIES = 10_000
REST = 5.0  # seconds without a file that failed
_PAGES = TypeAdapter(list[Page])
_WAIT = 2.0  # seconds for another process's write; each takes milliseconds, and more on a busy machine
_TABLE = (
    "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT NOT NULL, used INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_use ON entries (used)",
)
# What SQLite calls a file that is no database, or no whole one.
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class PageCache:
    """Texts by key; many threads and processes may use one file.

    Args:
        path: of the file; its folder is made.
        entries: most that are kept.
    """

    def __init__(self, path: Path, entries: int = ENTRIES) -> None:
        self._path, self._entries, self._lock = path, entries, threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._resting_until = 0.0
        self._file: int | None = None

    def get(self, key: str) -> str | None:
        """The text of a key, which is now the one that was used last; None where there is none."""

        def work(database: sqlite3.Connection) -> str | None:
            row = database.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            database.execute("UPDATE entries SET used = ? WHERE key = ?", (time.time_ns(), key))
            return str(row[0])

        return self._run(work)

    def put(self, key: str, value: str) -> None:
        """Keep a text, and drop what was used least recently beyond the most that are kept."""

        def work(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (key, value, time.time_ns()))
            database.execute(
                "DELETE FROM entries WHERE key IN (SELECT key FROM entries ORDER BY used, rowid "
                "LIMIT max(0, (SELECT count(*) FROM entries) - ?))",
                (self._entries,),
            )

        self._run(work)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What a transaction gives; None, with a line in the log, where the file fails: it is then left alone a while.

        Otherwise each of many threads would wait as long as the first for a file that another process holds.
        """
        with self._lock:
            if time.monotonic() < self._resting_until:
                return None
            try:
                database = self._open()
                with database:
                    database.execute("BEGIN IMMEDIATE")
                    return work(database)
            except (sqlite3.Error, OSError) as error:
                self._close()
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
                    self._set_aside(error)
                else:
                    log.warning("the cache %s cannot be used for %.0f s: %s", self._path, REST, error)
                    self._resting_until = time.monotonic() + REST
                return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # One process at a time: SQLite does not wait for another that turns the write-ahead log on as well.
            with self._alone():
                self._path.touch()
                self._file = self._path.stat().st_ino
                # Transactions are begun by hand: as writers, since a reader that turns writer may find another there.
                self._connection = sqlite3.connect(
                    self._path, timeout=_WAIT, check_same_thread=False, isolation_level=None
                )
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                for statement in _TABLE:
                    self._connection.execute(statement)
        return self._connection

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from opening the file or setting it aside."""
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # of a file that is broken
                self._connection.close()
            self._connection = None

    def _set_aside(self, error: Exception) -> None:
        """Rename the broken file, unless another process has done so and begun a new one."""
        with self._alone():
            if not self._path.exists() or self._path.stat().st_ino != self._file:
                return
            aside = self._path.with_suffix(".broken")
            log.warning("the cache %s is broken (%s): set aside as %s, a new one is begun", self._path, error, aside)
            os.replace(self._path, aside)
            for journal in ("-wal", "-shm"):
                self._path.with_name(self._path.name + journal).unlink(missing_ok=True)


class Answers:
    """The pages of queries to one endpoint, kept in a cache."""

    def __init__(self, endpoint: str, cache: PageCache) -> None:
        self._endpoint, self._cache = endpoint, cache

    def look_up(self, query: str, topk: int) -> list[Page] | None:
        """The pages of a query; None where they are not known."""
        kept = self._cache.get(self._key(query, topk))
        if kept is None:
            return None
        try:
            return _PAGES.validate_json(kept, strict=True)
        except ValueError as error:  # somebody else has written it
            log.warning("an entry of the cache is none: %s", " ".join(str(error).split())[:200])
            return None

    def keep(self, query: str, topk: int, pages: list[Page]) -> None:
        """Keep the pages of a query, all of them and with their texts."""
        self._cache.put(self._key(query, topk), json.dumps([asdict(page) for page in pages]))

    def _key(self, query: str, topk: int) -> str:
        return json.dumps([self._endpoint, query, topk])
