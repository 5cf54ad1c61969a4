"""Data sets of the Hugging Face hub, or of a folder in the hub's layout, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.errors import InputError
from tasks.qa.reading import Row, as_row


def rows(identity: str, subset: str | None, part: str, folder: Path) -> Iterator[Row]:
    """Rows of a data set.

    Args:
        identity: `OWNER/NAME`, with `@REVISION` where it is to be pinned; or a folder, relative to `folder`.
        subset: the data set's configuration; None for its only one.
        part: the data set's split.
        folder: `ingest.data_dir`.

    Raises:
        InputError: there is no such data set, configuration or split, it can't be reached, or its rows can't be read.
    """
    import datasets
    import httpx
    import pyarrow as pa

    name, _, revision = identity.partition("@")
    if (folder / identity).is_dir():
        name, revision = str(folder / identity), ""
    where = f"hf:{identity}" + (f", subset {subset}" if subset else "")
    number = 0
    try:
        streamed = datasets.load_dataset(name, subset, split=part, streaming=True, revision=revision or None)
        for number, row in enumerate(streamed, start=1):
            yield as_row(f"{where}, row {number}", row)
    # What a wrong id, configuration or split raises is not one family; OSError is also a network that isn't there.
    except (datasets.exceptions.DatasetsError, httpx.HTTPError, OSError, ValueError, pa.ArrowException) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        after = f", after row {number}" if number else ""
        mend = f"see that it exists, with a split {part!r}, and that the network is there; or name a file"
        raise InputError(told, where=f"{where}{after}", mend=mend) from None
