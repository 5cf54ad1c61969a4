"""Data sets of the Hugging Face hub, or of a folder in the hub's layout, streamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tasks.errors import InputError
from tasks.qa.reading import Row, as_row

_COMMIT = re.compile("[0-9a-f]{40}")


class DataSet:
    """One split of a data set.

    Attributes:
        commit: what its revision was when its rows were read; None before that, and for a folder.

    Args:
        identity: `OWNER/NAME`, with `@REVISION` where it is to be pinned; or a folder, relative to `folder`.
        subset: the data set's configuration; None for its only one.
        part: the data set's split.
        folder: `ingest.data_dir`.
    """

    def __init__(self, identity: str, subset: str | None, part: str, folder: Path) -> None:
        self._identity, self._subset, self._part, self._folder = identity, subset, part, folder
        self.commit: str | None = None

    def rows(self) -> Iterator[Row]:
        """Its rows, in order and numbered from 0.

        Raises:
            InputError: there is no such data set, configuration or split, it can't be reached, or can't be read.
        """
        import datasets

        where = f"hf:{self._identity}" + (f", subset {self._subset}" if self._subset else "")
        number = 0
        try:
            name, _, revision = self._identity.partition("@")
            if (self._folder / self._identity).is_dir():
                name, revision = str(self._folder / self._identity), ""
            builder = datasets.load_dataset_builder(name, self._subset, revision=revision or None)
            self.commit = builder.hash if _COMMIT.fullmatch(builder.hash or "") else None
            for row in builder.as_streaming_dataset(split=self._part):
                yield as_row(f"{where}, row {number}", row)
                number += 1
        # The library passes on whatever the network, the archive and the file's own decoder raise: no family of errors.
        except Exception as error:
            told = " ".join(str(error).split()) or type(error).__name__
            after = f", from row {number} on" if number else ""
            mend = f"see that it exists, with a split {self._part!r}, and that the network is there; or name a file"
            raise InputError(told, where=f"{where}{after}", mend=mend) from error
