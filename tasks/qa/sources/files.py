"""What all sources have in common that are a file, or a data set of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from tasks.errors import InputError
from tasks.qa.reading import Row, RowError, hub, json_text, opening, tables
from tasks.qa.reading.json_text import Layout
from tasks.qa.records import Fault, Item, Passage, Question, Split
from tasks.qa.sources.base import Context, Keys, Source
from tasks.sections import Positive

HUB = "hf:"
LONGEST_NAME = 100
_SHOWN = 12
_LAYOUTS: dict[Layout, str] = {"lines": "one object a line", "array": "an array", "object": "one object"}


def ending_of(path: Path) -> str:
    """How a file's name ends, without .gz."""
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _name(value: str) -> str:
    if not 1 <= len(value) <= LONGEST_NAME or value.strip() != value or value in (".", ".."):
        raise ValueError(f"must be 1 to {LONGEST_NAME} characters, without space at its ends, and neither . nor ..")
    if "/" in value or not value.isprintable():
        raise ValueError("must hold neither / nor a control character")
    return value


Name = Annotated[str, AfterValidator(_name)]


class PathKeys(Keys):
    """Where rows are: a path, or `hf:OWNER/NAME` with the data set's configuration `subset` and its split `part`.

    `hf:OWNER/NAME@REVISION` pins a revision. Without `part` the data set's split is the source's own.
    """

    name: Name = "corpus"
    path: str
    limit: Annotated[Positive, Field(le=sys.maxsize)] | None = None
    licence: str | None = None
    subset: str | None = None
    part: str | None = None

    @model_validator(mode="after")
    def _place_is_named(self) -> Self:
        if not self.path.removeprefix(HUB).strip():
            raise ValueError(f"path must name a file, or a data set of the hub: {HUB}OWNER/NAME")
        if not self.path.startswith(HUB) and (self.subset or self.part):
            raise ValueError(f"subset and part are for a data set of the hub, and path does not begin with {HUB}")
        return self


class QuestionKeys(PathKeys):
    """Keys of a question set."""

    name: Name
    split: Split


class FileSource(Source):
    """A source that reads rows one by one.

    Attributes:
        required: keys that every row has; as columns they are looked for before the first row.
        optional: further keys that are read; other columns of a table are not even loaded.
        endings: names of files it takes, without .gz.
        layouts: forms of JSON it takes.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    endings: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".parquet")
    layouts: ClassVar[tuple[Layout, ...]] = ("array", "lines")

    def __init__(self, keys: Any, context: Context) -> None:
        super().__init__(keys, context)
        self._digest = hashlib.sha256()
        self._data_set: hub.DataSet | None = None
        if keys.path.startswith(HUB):
            part = keys.part or getattr(keys, "split", "train")
            self._data_set = hub.DataSet(keys.path.removeprefix(HUB), keys.subset, part, context.folder)

    @abstractmethod
    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question | Passage]:
        """What a row brings.

        Args:
            row: its keys and values.
            number: of the row in the source, from 1.
            origin: file and line or row.

        Raises:
            RowError: the row is faulty.
        """

    @property
    def path(self) -> Path:
        """The file."""
        return self.context.folder / self.keys.path

    def items(self) -> Iterator[Item]:
        for number, (origin, content) in enumerate(itertools.islice(self.rows(), self.keys.limit), start=1):
            if isinstance(content, RowError):
                yield Fault(origin, content.reason, content.message)
                continue
            try:
                found = self.parse(content, number, origin)
            except RowError as error:
                yield Fault(origin, error.reason, self._told(error, content))
            else:
                yield from found

    def _told(self, error: RowError, row: dict[str, Any]) -> str:
        missing = [key for key in self.required if key not in row] if error.reason == "missing_key" else []
        return f"{error.message}; {self.mend_missing(missing[0], list(row))}" if missing else error.message

    def mend_missing(self, key: str, names: list[str]) -> str:
        """What to do where a key, or a column, is missing among others."""
        other = self._other(names)
        if other:
            return f"the reader {other!r} takes such rows"
        return f"there are {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"

    def _other(self, names: Iterable[str]) -> str | None:
        """The reader to whose form keys belong, where it isn't this one."""
        from tasks.qa.sources import fitting

        reader = fitting(names, ending_of(self.path), type(self))
        return None if reader == self.reader else reader

    def rows(self) -> Iterator[Row]:
        """Rows of the file or of the data set."""
        return self.file_rows() if self._data_set is None else self._hashed(self._data_set.rows())

    def file_rows(self) -> Iterator[Row]:
        """Rows of the file."""
        if self.ending() == ".parquet":
            return tables.parquet(self.path, self.chosen)
        return self.json_rows()

    def json_rows(self) -> Iterator[Row]:
        """Rows of a file of JSON."""
        found = json_text.layout(self.path)
        if found not in self.layouts:
            raise self._refused(found)
        return json_text.json_lines(self.path) if found == "lines" else json_text.json_array(self.path)

    def ending(self) -> str:
        """How the file's name ends.

        Raises:
            InputError: in no way that this reader takes.
        """
        ending = ending_of(self.path)
        if ending not in self.endings:
            opening.regular(self.path)  # that it is missing is worse than what it is called
            mend = f"the reader {self.reader} takes {', '.join(self.endings)}"
            raise InputError(f"a file whose name ends with {ending!r}", where=str(self.path), mend=mend)
        return ending

    def _refused(self, found: Layout) -> InputError:
        wanted = " or ".join(_LAYOUTS[one] for one in self.layouts)
        mend = f"{self.reader} takes {wanted}"
        if found == "object":
            mend += "; the reader squad takes one object with its articles under `data`"
        else:
            rows = json_text.json_array if found == "array" else json_text.json_lines
            _, first = next(rows(self.path), ("", {}))
            other = self._other(first) if isinstance(first, dict) else None
            mend = f"the reader {other!r} takes such a file" if other else mend
        return InputError(f"holds {_LAYOUTS[found]} of JSON, not {wanted}", where=str(self.path), mend=mend)

    def chosen(self, names: list[str]) -> list[str]:
        """The columns to read among those of a table.

        Raises:
            InputError: one is missing.
        """
        missing = [name for name in self.required if name not in names]
        if missing:
            mend = self.mend_missing(missing[0], names)
            raise InputError(f"no column {missing[0]!r}", where=str(self.path), mend=mend)
        return [name for name in (*self.required, *self.optional) if name in names]

    def _hashed(self, rows: Iterable[Row]) -> Iterator[Row]:
        for origin, row in rows:
            self._digest.update(json.dumps(row, sort_keys=True, default=str).encode())
            yield origin, row

    def provenance(self) -> dict[str, Any]:
        """The source's keys, where it comes from, and its hash.

        `sha256` and `bytes` are of the whole file, whatever `limit` is. Of a data set of the hub, `sha256` covers the
        rows that were read and nothing else, and `commit` is the revision they were read of.
        """
        known = self.keys.model_dump(exclude_none=True)
        known |= {"licence": self.keys.licence or self.licence, "upstream": self.upstream}
        if self._data_set is not None:
            commit = {"commit": self._data_set.commit} if self._data_set.commit else {}
            return known | {"sha256": self._digest.hexdigest(), **commit}
        return known | {"sha256": opening.sha256(self.path), "bytes": self.path.stat().st_size}


class QuestionSource(FileSource):
    """A source of questions."""

    Keys = QuestionKeys
    brings = "questions"

    def made_id(self, number: int) -> str:
        """An id for a row of a file that has none."""
        return f"{self.keys.name}-{self.keys.split}-{number}"
