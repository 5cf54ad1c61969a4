"""What a request may say, and how it is told what is wrong: Search-R1's `{"queries", "topk", "return_scores"}`."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

MOST_BYTES = 1 << 23  # of a body: 4,096 queries of 2,000 characters
MOST_QUERIES = 4096  # of a request: Search-R1 sends a step's episodes in one, 2,560 at its defaults
MOST_CHARACTERS = 8192  # of a query
MOST_TOPK = 100


class RequestError(ValueError):
    """A request that cannot be answered as it is.

    Args:
        status: 4xx.
        detail: one line.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


@dataclass(frozen=True)
class Asked:
    """A request's content.

    Attributes:
        queries: as they came; a blank one finds nothing.
        topk: passages a query.
        scores: whether scores are wanted beside the documents.
    """

    queries: list[str]
    topk: int
    scores: bool


def read(body: bytes, *, topk: int, most: int = MOST_QUERIES) -> Asked:
    """Read a body.

    Args:
        body: JSON.
        topk: where the request says null, or nothing.
        most: queries of a request.

    Raises:
        RequestError: it is not of the form above; the line says where.
    """
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(400, f"the body must be JSON: {error}") from None
    if not isinstance(content, dict):
        raise RequestError(400, 'the body must be an object: {"queries": [...], "topk": 3}')
    queries = _queries(content.get("queries"), most)
    wanted, scores = content.get("topk"), content.get("return_scores", False)
    if wanted is None:
        wanted = topk
    if type(wanted) is not int or not 1 <= wanted <= MOST_TOPK:
        raise RequestError(400, f"topk must be a whole number from 1 to {MOST_TOPK}, or null")
    if type(scores) is not bool:
        raise RequestError(400, "return_scores must be true or false")
    return Asked(queries, wanted, scores)


def _queries(queries: Any, most: int) -> list[str]:
    if not isinstance(queries, list) or not queries:
        raise RequestError(400, "queries must be a list of strings, and not empty")
    if len(queries) > most:
        raise RequestError(413, f"{len(queries):,} queries; at most {most:,} in a request")
    for place, query in enumerate(queries):
        if type(query) is not str:
            raise RequestError(400, f"queries[{place}] must be a string")
        if len(query) > MOST_CHARACTERS:
            raise RequestError(413, f"queries[{place}] has {len(query):,} characters; at most {MOST_CHARACTERS:,}")
        if "\0" in query:
            raise RequestError(400, f"queries[{place}] holds a NUL character")
    if not any(map(str.strip, queries)):
        raise RequestError(400, "every query is blank")
    return queries


def read_seconds(text: str | None, most: float) -> float:
    """The seconds that a client gives, in a header, no more than the server's own.

    Raises:
        RequestError: it is no number above 0.
    """
    if text is None:
        return most
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (isfinite(seconds) and seconds > 0):
        raise RequestError(400, "x-deadline-seconds must be a number above 0")
    return min(seconds, most)
