"""The passages of an index: an uncompressed Arrow file, memory-mapped, so that every worker opens it at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.errors import InputError
from tasks.retrieval.index import manifest

FILE = "passages.arrow"
_CORPUS = "corpus_sha256"  # in the file's schema


@dataclass(frozen=True)
class Passage:
    """A passage, whole."""

    id: str
    title: str
    text: str
    url: str | None = None


def read_corpus(corpus: Path) -> pa.Table:
    """Passages from parquet as one chunk of strings: columns id, title, text, url (null where there is none).

    Raises:
        InputError: a column is missing, there is no passage, or an id occurs twice.
    """
    table = pq.read_table(corpus)
    missing = [name for name in ("id", "title", "text") if name not in table.column_names]
    if missing:
        raise InputError(f"no column {missing[0]!r}", where=str(corpus), mend="a passage has id, title, text")
    if table.num_rows == 0:
        raise InputError("no passages", where=str(corpus), mend="name a corpus in ingest.corpus")
    # 64-bit offsets: a Wikipedia dump's texts are longer than the 2 GiB that plain strings can address.
    kind = pa.large_string()
    columns = {name: table[name].cast(kind) for name in ("id", "title", "text")}
    columns["url"] = table["url"].cast(kind) if "url" in table.column_names else pa.nulls(table.num_rows, kind)
    result = pa.table(columns).combine_chunks()
    if pc.count_distinct(result["id"]).as_py() < result.num_rows:
        twice = next(key for key, count in Counter(result["id"].to_pylist()).items() if count > 1)
        raise InputError(f"passage id {twice!r} occurs twice", where=str(corpus), mend="ids must be unique")
    return result


def write(table: pa.Table, folder: Path, corpus_sha256: str) -> None:
    """Write the passages of a corpus into an index folder."""
    table = table.replace_schema_metadata({_CORPUS: corpus_sha256})
    with pa.OSFile(str(folder / FILE), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def open_table(folder: Path) -> pa.Table:
    """The passages of an index folder, memory-mapped: columns id, title, text, url.

    Raises:
        InputError: their file is missing or not whole.
    """
    with manifest.reading(folder / FILE):
        return pa.ipc.open_file(pa.memory_map(str(folder / FILE))).read_all()


class Passages:
    """The passages of an index folder by row and by id.

    Args:
        folder: of the index.
        corpus_sha256: of the corpus that they must be of; None: any.

    Raises:
        InputError: their file is missing, not whole, or of another corpus.
    """

    def __init__(self, folder: Path, corpus_sha256: str | None = None) -> None:
        self._where = folder / FILE
        table = open_table(folder)
        if corpus_sha256 is not None:
            found = (table.schema.metadata or {}).get(_CORPUS.encode(), b"").decode()
            manifest.require_same(self._where, found, corpus_sha256)
        self._columns = [table[name].chunk(0) for name in ("id", "title", "text", "url")]

    def __len__(self) -> int:
        return len(self._columns[0])

    def at(self, row: int) -> Passage:
        """The passage of a row, whole."""
        return Passage(*(column[row].as_py() for column in self._columns))

    def texts(self, start: int, end: int) -> list[str]:
        """What is indexed of the passages from `start` up to, and without, `end`: title and text."""
        titles, bodies = (column.slice(start, end - start).to_pylist() for column in self._columns[1:3])
        return [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]

    def by_id(self, key: str) -> Passage:
        """The passage with an id, whole.

        Raises:
            InputError: there is none.
        """
        if key not in self._rows:
            mend = "gold_passage_ids and the corpus must come from the same data"
            raise InputError(f"no passage with id {key!r}", where=str(self._where), mend=mend)
        return self.at(self._rows[key])

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self._columns[0].to_pylist())}
