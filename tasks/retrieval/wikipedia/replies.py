"""What Wikipedia's API says, read as foreign text: types checked, lengths limited, nothing taken on trust.

The form is MediaWiki's `action=query` with `formatversion=2`: https://www.mediawiki.org/wiki/API:Query.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

MOST_QUERY = 300  # characters of a query: CirrusSearch refuses longer ones
MOST_TITLE = 1024  # characters; a title has at most 255 bytes there
MOST_TEXT = 20_000  # characters of an extract
MOST_URL = 4096
MOST_PAUSE = 86_400.0  # seconds; longer pauses are a server's mistake
# Errors that pass by themselves: the data base lags, the client is too fast, the search is too busy.
_PASSING = ("maxlag", "ratelimited", "readonly", "cirrussearch-too-busy", "internal_api_error_DBQueryTimeoutError")
# Operators of CirrusSearch: `insource:/regex/` costs Wikimedia seconds, `User:` leaves the articles ...
_OPERATORS = re.compile(r"[:/\\*?~]")
_EXCLUDING = "-!+"  # ... and `-word` excludes
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class ReplyError(Exception):
    """The reply is an error, or no reply of this API.

    Args:
        why: for the log.
        passing: whether it is worth asking again later.
    """

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


@dataclass
class Page:
    """A page that was found; its text may come with a later reply."""

    id: int
    rank: int
    title: str
    url: str | None
    text: str | None


@dataclass
class Reply:
    """One reply.

    Args:
        pages: by id.
        rest: parameters that ask for what is missing of them; none where nothing is.
        sure: whether the search had nothing to warn of, such as that it found only a part in time.
    """

    pages: dict[int, Page] = field(default_factory=dict)
    rest: dict[str, str] = field(default_factory=dict)
    sure: bool = True


def plain(query: str) -> str:
    """A query as words: without the search's operators, on one line, no longer than the API takes."""
    words = _OPERATORS.sub(" ", unicodedata.normalize("NFC", clean(query))).split()
    short = " ".join(word for word in (word.lstrip(_EXCLUDING) for word in words) if word)
    return short if len(short) <= MOST_QUERY else short[: MOST_QUERY + 1].rpartition(" ")[0] or short[:MOST_QUERY]


def clean(text: str) -> str:
    """Text without what is no character: control characters become blanks, lone surrogates U+FFFD."""
    return _SURROGATE.sub("\ufffd", _CONTROL.sub(" ", text))


def read(content: bytes | bytearray) -> Reply:
    """Read a reply's body.

    Raises:
        ReplyError: it is an error, or of another form.
    """
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"a reply that is no JSON: {error}") from None
    if not isinstance(reply, dict):
        raise ReplyError("a reply that is no object")
    if "error" in reply:
        said = reply["error"] if isinstance(reply["error"], dict) else {}
        code, info = (clean(str(said.get(key, "")))[:200] for key in ("code", "info"))
        raise ReplyError(f"error {code!r}: {info}", passing=code.startswith(_PASSING))
    # Nothing found is a reply without `query`.
    pages = _typed(_typed(reply, "query", dict, {}), "pages", list, [])
    found = Reply(
        {page.id: page for page in map(_page, pages)}, sure="search" not in _typed(reply, "warnings", dict, {})
    )
    # Without `batchcomplete` something of these pages is missing; with it only further pages are.
    if reply.get("batchcomplete") is not True:
        rest = _typed(reply, "continue", dict, {})
        found.rest = {clean(str(key))[:100]: clean(str(value))[:1000] for key, value in list(rest.items())[:20]}
        if not found.rest:
            raise ReplyError("a reply that is neither complete nor to be continued")
    return found


def _page(page: Any) -> Page:
    if not isinstance(page, dict):
        raise ReplyError("a page that is no object")
    title, text, url = (_typed(page, key, str, None) for key in ("title", "extract", "fullurl"))
    id, rank = (_typed(page, key, int, None) for key in ("pageid", "index"))
    if id is None or rank is None or title is None or len(title) > MOST_TITLE:
        raise ReplyError("a page without number, index or title")
    known = url is not None and url.startswith("https://") and len(url) <= MOST_URL and url.isprintable()
    return Page(id, rank, clean(title), url if known else None, None if text is None else clean(text[:MOST_TEXT]))


def _typed(values: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = values.get(key, default)
    if value is not default and type(value) is not kind:
        raise ReplyError(f"{key!r} that is no {kind.__name__}")
    return value


def merged(first: Reply, second: Reply) -> Reply:
    """Both replies to one query: a page's text stands in one of them."""
    pages = dict(first.pages)
    for id, page in second.pages.items():
        if id not in pages or pages[id].text is None:
            pages[id] = page
    return Reply(pages, second.rest, first.sure and second.sure)


def pause(value: str | None, default: float, now: datetime | None = None) -> float:
    """Seconds that a header `Retry-After` asks for; `default` where there is no valid one.

    It is a number or a date (RFC 9110, 10.2.3).
    """
    value = (value or "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MOST_PAUSE)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return default
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), MOST_PAUSE)
