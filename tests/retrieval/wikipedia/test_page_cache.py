import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.retrieval.wikipedia import page_cache
from tasks.retrieval.wikipedia.page_cache import ENTRIES, PageCache

WRITER = """
import sys
from pathlib import Path
from tasks.retrieval.wikipedia.page_cache import PageCache
cache, name = PageCache(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    cache.put(f"{name}-{number}", f"{name}-{number}" * 100)
    print(number, flush=True)
"""

OPENER = """
import sys
from pathlib import Path
from tasks.retrieval.wikipedia.page_cache import PageCache
for number in range(60):
    cache = PageCache(Path(sys.argv[1]) / f"{number}.sqlite")
    print(number, flush=True)
    sys.stdin.readline()
    cache.put(sys.argv[2], sys.argv[2])
    cache.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "pages.sqlite"


def count(path: Path) -> int:
    with sqlite3.connect(path) as database:
        return int(database.execute("SELECT count(*) FROM entries").fetchone()[0])


def test_what_is_put_is_got_by_another_too(path: Path) -> None:
    cache = PageCache(path)
    cache.put("a", "text")
    assert cache.get("a") == PageCache(path).get("a") == "text"
    assert cache.get("b") is None
    cache.put("a", "other")
    assert cache.get("a") == "other"


def test_what_was_used_least_recently_goes_first(path: Path) -> None:
    cache = PageCache(path, entries=3)
    for key in "abc":
        cache.put(key, key)
    cache.get("a")
    cache.put("d", "d")
    assert {key: cache.get(key) for key in "abcd"} == {"a": "a", "b": None, "c": "c", "d": "d"}
    cache.put("e", "e")
    assert cache.get("a") is None  # it was the first to be looked up in the line above
    assert count(path) == 3


def test_it_holds_ten_thousand(path: Path) -> None:
    assert ENTRIES == 10_000
    cache = PageCache(path)
    cache.put("first", "")
    with sqlite3.connect(path) as database:
        rows = ((f"k{n}", "", time.time_ns()) for n in range(ENTRIES - 1))
        database.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
    assert count(path) == ENTRIES
    cache.put("one more", "")
    assert count(path) == ENTRIES
    assert cache.get("first") is None


def test_many_threads_may_use_it(path: Path) -> None:
    cache = PageCache(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cache.put(str(n), str(n)), range(200)))
        assert list(pool.map(lambda n: cache.get(str(n)), range(200))) == [str(n) for n in range(200)]


def test_many_processes_may_use_it(path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "40"], stdout=subprocess.DEVNULL)
        for name in "ab"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    cache = PageCache(path)
    assert all(cache.get(f"{name}-{n}") == f"{name}-{n}" * 100 for name in "ab" for n in range(40))


def test_processes_that_begin_it_at_the_same_moment_all_get_in(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abcd"
    ]
    for number in range(60):
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{number}\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    for number in range(60):
        cache = PageCache(tmp_path / f"{number}.sqlite")
        assert {name: cache.get(name) for name in "abcd"} == {name: name for name in "abcd"}
        cache.close()


def test_a_writer_that_is_killed_leaves_it_whole(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), "a", "1000000"], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(50):
        last = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    cache = PageCache(path)
    assert all(cache.get(f"a-{n}") == f"a-{n}" * 100 for n in range(last + 1))
    cache.put("b", "b")
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not path.with_suffix(".broken").exists()
    writer.stdout.close()


@pytest.mark.parametrize("content", [b"no data base at all" * 1000, b"SQLite format 3\x00" + b"\xff" * 8000])
def test_a_broken_file_is_set_aside_and_begun_anew(
    path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    cache = PageCache(path)
    assert cache.get("a") is None
    cache.put("a", "text")
    assert cache.get("a") == "text"
    assert path.with_suffix(".broken").read_bytes() == content
    assert "broken" in caplog.text


def test_a_file_that_breaks_under_it_is_set_aside_by_one_of_those_who_use_it(path: Path) -> None:
    one, other = PageCache(path), PageCache(path)
    for number in range(300):
        one.put(str(number), "x" * 1000)
    other.get("1")
    one.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    fresh = PageCache(path)
    for cache in (fresh, other, fresh, other):
        cache.get("1")
    fresh.put("new", "1")
    assert other.get("new") == "1"


def test_a_cache_that_cannot_be_written_costs_no_search(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = PageCache(tmp_path / "file" / "pages.sqlite")
    cache.put("a", "a")
    assert cache.get("a") is None
    assert "cannot be used" in caplog.text


def test_a_lock_that_another_holds_is_not_waited_for_long(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "REST", 2.0)
    cache = PageCache(path)
    cache.put("a", "a")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(cache.get, "a" * 20)) == [None] * 20
    assert time.monotonic() - start < 3  # and not 20 times as long as one
    holder.execute("ROLLBACK")
    holder.close()
    time.sleep(2)
    assert cache.get("a") == "a"
    assert not path.with_suffix(".broken").exists()
    assert any(record.levelno == logging.WARNING for record in caplog.records)
