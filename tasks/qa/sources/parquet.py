"""Questions in a parquet file of the user's own; `columns` names its columns."""

from __future__ import annotations

from tasks.qa.sources import mapped


class Source(mapped.MappedSource):
    """A question a row; an answer may be a text or a list of texts."""

    reader = "parquet"
    required = ("id", "question", "golden_answers")
    endings = (".parquet",)
    lone = True
