"""A corpus: passages `{id, title, text, url?}`, or `{id, contents}` as Search-R1 has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.qa.reading import RowError, fields
from tasks.qa.records import Passage
from tasks.qa.sources import files


class Source(files.FileSource):
    """Passages of the user's own.

    `contents` is the title in double quotes, a line break, and the text.
    """

    reader = "passages"
    Keys = files.PathKeys
    upstream = "the user's own"
    brings = "passages"
    required: tuple[str, ...] = ("id",)
    optional: tuple[str, ...] = ("title", "text", "url", "contents")
    identity = "id"

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Passage]:
        identity = fields.identity(fields.required(row, self.identity), self.identity)
        passage = self.passage(row, identity)
        if identity in self.context.passage_ids:
            raise RowError("duplicate_id", f"passage id {identity!r} comes twice")
        return (passage,)

    def passage(self, row: dict[str, Any], identity: str) -> Passage:
        """The passage of a row."""
        if row.get("contents") is not None:
            first, _, rest = fields.text(row["contents"], "contents").partition("\n")
            return Passage(identity, first.strip().strip('"'), fields.text(rest, "contents, after the title"))
        title = fields.plain(fields.required(row, "title"), "title")
        url = row.get("url")
        text = fields.text(fields.required(row, "text"), "text")
        return Passage(identity, title, text, None if url is None else fields.text(url, "url"))
