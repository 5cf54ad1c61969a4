"""What a retrieval server of Search-R1's form answers, read with care: it may be anybody's.

Source of the form: Search-R1's `retrieval_server.py`. Documents are `{"id", "contents"}`, contents are `"title"` and,
from the next line on, the text; ids are missing in some servers, scores in others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from tasks.retrieval.client.connections import Reply
from tasks.retrieval.index.passages import Passage
from tasks.retrieval.retriever import Hit


def read_reply(content: bytes, queries: int, topk: int) -> list[list[Hit]]:
    """The hits of each query, `topk` at most.

    Args:
        content: the body of a reply of `/retrieve`.
        queries: how many were asked.
        topk: how many passages were asked for.

    Raises:
        ValueError: it is anything else than one list of documents a query.
    """
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    found = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
        raise ValueError("no list of results a query")
    if len(found) != queries:
        raise ValueError(f"{len(found)} lists of results for {queries} queries")
    return [[_hit(one) for one in documents[:topk]] for documents in found]


def _hit(one: Any) -> Hit:
    document, score = one, 0.0
    if isinstance(one, dict) and "document" in one:
        document, score = one["document"], one.get("score", 0.0)
    if not isinstance(document, dict) or not isinstance(document.get("contents"), str):
        raise ValueError("a document without contents")
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError("a score that is no number")
    return Hit(_passage(document), float(score))


def _passage(document: dict[str, Any]) -> Passage:
    contents, key, url = document["contents"], document.get("id"), document.get("url")
    if key is None:
        # The same passage has the same id in every answer: citations and repeats go by it.
        key = hashlib.sha256(contents.encode()).hexdigest()[:16]
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise ValueError("an id that is neither text nor a number")
    title = document.get("title")
    if isinstance(title, str) and contents.startswith(f'"{title}"\n'):
        text = contents[len(title) + 3 :]
    else:
        first, line_break, rest = contents.partition("\n")
        title, text = (first.strip().strip('"'), rest) if line_break else ("", contents)
    return Passage(str(key), title, text, url if isinstance(url, str) else None)


def retry_after(reply: Reply) -> float:
    """Seconds that `Retry-After` asks for, as a number or as a date; 0 without one."""
    value = reply.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one that does not say its zone
        return 0.0


def read_object(reply: Reply) -> Mapping[str, Any]:
    """A reply's object; an empty one where it is none."""
    try:
        content = orjson.loads(reply.content)
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}


def reason(reply: Reply) -> str:
    """What a reply says, in one short line."""
    said = str(read_object(reply).get("detail") or reply.content[:1000].decode("utf-8", "replace"))
    return " ".join(said.split())[:200]
