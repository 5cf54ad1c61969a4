"""Corpora of BEIR: `corpus.jsonl`."""

from __future__ import annotations

from typing import Any

from tasks.qa.records import Passage
from tasks.qa.sources import passages


class Source(passages.Source):
    """Rows `{_id, title, text, metadata?}`; titles may be empty; an address is `metadata.url`."""

    reader = "beir"
    licence = "each set's own"
    upstream = 'Thakur et al., "BEIR" (NeurIPS 2021), https://github.com/beir-cellar/beir'
    identity = "_id"
    required = ("_id", "title", "text")
    optional = ("metadata",)

    def passage(self, row: dict[str, Any], identity: str) -> Passage:
        metadata = row.get("metadata")
        url = metadata.get("url") if isinstance(metadata, dict) else None
        return super().passage({"title": row.get("title"), "text": row.get("text"), "url": url or None}, identity)
