"""Expensive arrays, made shard by shard into a folder: a run that was killed goes on where it was.

A shard is written aside and renamed, so one that is there is whole. The folder must be one that no other work uses.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.retrieval.index.progress import Progress


class Shards:
    """Shards of `size` rows of `total`.

    Args:
        folder: takes the shards.
        total: rows altogether.
        size: rows of a shard; the last may have fewer.
        say: takes lines of progress.
    """

    def __init__(self, folder: Path, total: int, size: int, say: Callable[[str], None]) -> None:
        self._folder, self._total, self._size, self._say = folder, total, size, say
        folder.mkdir(parents=True, exist_ok=True)

    def make(self, name: str, suffix: str, work: Callable[[int, int], Any], save: Callable[[Path, Any], None]) -> None:
        """Make the shards that are missing.

        Args:
            name: of what is made.
            suffix: of its files.
            work: makes the rows from a first up to another, which is not among them.
            save: writes what `work` returns to a path, which has the suffix.
        """
        progress = Progress(name, self._total, self._say)
        for start in self._starts():
            path = self.path(name, suffix, start)
            if path.exists():
                continue
            end = min(start + self._size, self._total)
            rows = work(start, end)
            with _aside(path) as aside:
                save(aside, rows)
            progress.step(end - start, end)

    def paths(self, name: str, suffix: str) -> list[Path]:
        """The shards of a name, in order."""
        return [self.path(name, suffix, start) for start in self._starts()]

    def path(self, name: str, suffix: str, start: int) -> Path:
        """The shard whose first row is `start`."""
        return self._folder / f"{name}-{start:010}{suffix}"

    def joined(self, name: str, width: int, work: Callable[[int, int], np.ndarray]) -> np.ndarray:
        """A memory-mapped matrix of shape (total, width), float32, whose rows are made by shards."""
        path = self._folder / f"{name}.npy"
        if not path.exists():
            self.make(name, ".npy", work, lambda aside, rows: np.save(aside, rows, allow_pickle=False))
            shards = self.paths(name, ".npy")
            with _aside(path) as aside:
                whole = np.lib.format.open_memmap(aside, mode="w+", dtype=np.float32, shape=(self._total, width))
                for start, shard in zip(self._starts(), shards, strict=True):
                    whole[start : start + self._size] = np.load(shard, allow_pickle=False)
                whole.flush()
            for shard in shards:
                shard.unlink()
        return np.load(path, mmap_mode="r", allow_pickle=False)

    def _starts(self) -> range:
        return range(0, self._total, self._size)


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A path to write to, which then becomes the file; on disk before it does, so that no crash leaves half of it."""
    aside = path.with_name(f".partial-{path.name}")
    yield aside
    with aside.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(aside, path)
