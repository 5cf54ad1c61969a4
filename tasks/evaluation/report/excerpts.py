"""Trajectories cut into pieces that a page can colour, and the choice of the few that are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

# Part by tag, in any protocol; a tool's own tags are a query too.
_PARTS = {"think": "thought", "search": "query", "tool_call": "query", "fact": "fact", "answer": "answer"}
_MARK = re.compile(r"(<\|\w+\|>(?:(?:system|user|assistant|tool)(?:\n|\Z))?)")


@dataclass(frozen=True)
class Piece:
    """A piece of text and its part: plain, mark, thought, query, fact, answer, earlier, gold, support or cut.

    `mark` is the chat template's, `earlier` an answer that another one has replaced, `gold` a golden answer in what
    tools brought, `support` the heading of a passage with a supporting title, `cut` a note of what is left out.
    """

    part: str
    text: str


@dataclass(frozen=True)
class Group:
    """Questions on which two models agree or differ."""

    name: str
    ids: list[str]


def generated_pieces(text: str, tools: Iterable[str] = ()) -> list[Piece]:
    """The blocks of a generated text, tags included, and what stands between them; `tools` have tags of their own."""
    parts = dict.fromkeys(tools, "query") | _PARTS
    pieces, text, end = [], text.strip(), 0
    for tag, start, stop in _blocks(text, parts):
        pieces += [*plain_pieces(text[end:start]), Piece(parts[tag], text[start:stop])]
        end = stop
    return [*pieces, *plain_pieces(text[end:])]


def _blocks(text: str, tags: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Tag, start and end of every block that is closed, none within another.

    In time that grows with the text alone: a model that collapses writes thousands of tags that it never closes, each
    of which a pattern with `.*?` would follow to the end.
    """
    end, never_closed = 0, set()
    for opening in re.finditer(f"<({'|'.join(map(re.escape, tags))})>", text):
        tag = opening.group(1)
        if opening.start() < end or tag in never_closed:
            continue
        close = f"</{tag}>"
        at = text.find(close, opening.end())
        if at < 0:
            never_closed.add(tag)
            continue
        end = at + len(close)
        yield tag, opening.start(), end


def plain_pieces(text: str) -> list[Piece]:
    """A text with the marks of the chat template apart."""
    return [Piece("mark" if n % 2 else "plain", part) for n, part in enumerate(_MARK.split(text)) if part]


def observed_pieces(text: str, golden: Sequence[str], titles: Sequence[str] = ()) -> list[Piece]:
    """An observation with its golden answers marked, as whole words in any case, and the headings of `titles`."""
    headings = [rf"(?:Doc \d+|\[\d+\]) \(Title: {re.escape(title)}\)" for title in titles if title.strip()]
    return [
        piece
        for is_heading, part in _split(headings, text)
        for piece in ([Piece("support", part)] if is_heading else _marked(part, golden))
    ]


def _marked(text: str, golden: Sequence[str]) -> list[Piece]:
    answers = [rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in golden if answer.strip()]
    return [
        piece
        for is_answer, part in _split(answers, text)
        for piece in ([Piece("gold", part)] if is_answer else plain_pieces(part))
    ]


def _split(patterns: Sequence[str], text: str) -> list[tuple[bool, str]]:
    """The text cut at what matches a pattern, the longest first, in any case: whether it matched, and the part."""
    if not patterns:
        return [(False, text)]
    longest = "|".join(sorted(patterns, key=len, reverse=True))
    return [(n % 2 == 1, part) for n, part in enumerate(re.split(f"({longest})", text, flags=re.IGNORECASE)) if part]


def shorten(pieces: Sequence[Piece], limit: int) -> list[Piece]:
    """Pieces of at most `limit` characters: the middle of longer ones is left out, which a piece `cut` says.

    Args:
        pieces: of one segment.
        limit: characters that are kept, the note not counted; two thirds of them from the start.
    """
    total = sum(len(piece.text) for piece in pieces)
    if total <= limit:
        return list(pieces)
    head = 2 * limit // 3
    note = Piece("cut", f" [{total - limit:,} characters left out] ")
    return [*_window(pieces, 0, head), note, *_window(pieces, total - (limit - head), total)]


def _window(pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """What lies between two positions of the pieces' joined text."""
    found, at = [], 0
    for piece in pieces:
        part = piece.text[max(0, start - at) : max(0, end - at)]
        if part:
            found.append(Piece(piece.part, part))
        at += len(piece.text)
    return found


def segments(row: Any) -> list[dict[str, Any]]:
    """The segments of a recorded trajectory with their pieces: kind, tokens, pieces.

    Golden answers and supporting titles are marked in what tools brought, not in the system's own words or a user's.
    """
    tools, golden = {call["tool"] for call in json.loads(row["calls"])}, list(row["golden_answers"])
    titles = list(row["supporting_titles"])

    def pieces(kind: str, text: str) -> list[Piece]:
        if kind == "generated":
            return generated_pieces(text, tools)
        return observed_pieces(text.strip(), golden, titles) if kind == "observation" else plain_pieces(text.strip())

    found = [
        {"kind": one["kind"], "tokens": one["tokens"], "pieces": pieces(one["kind"], one["text"])}
        for one in json.loads(row["segments"])
    ]
    answered = False
    for segment in reversed(found):
        for n, piece in reversed(list(enumerate(segment["pieces"]))):
            if piece.part == "answer":
                segment["pieces"][n] = Piece("earlier" if answered else "answer", piece.text)
                answered = True
    return found


def calls(row: Any) -> list[dict[str, Any]]:
    """The calls of a recorded trajectory in short: tool, what was asked for, failure or None, passages.

    The passages are the ids of those that the call brought, best first; None for one that is no search.
    """
    searches = list(zip(row["queries"], json.loads(row["passage_ids"]), strict=True))
    found = []
    for call in json.loads(row["calls"]):
        passages = None
        # Queries are those calls that searched, in the same order.
        if searches and call["failure"] is None and searches[0][0] in _meant(call["arguments"]):
            passages = searches.pop(0)[1]
        asked = _asked(call["arguments"])
        found.append({"tool": call["tool"], "asked": asked, "failure": call["failure"], "passages": passages})
    return found


def _meant(arguments: str) -> list[str]:
    """What a call's query may be: all of its arguments as they are, or the one of that name."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return [arguments]
    return [arguments, values["query"]] if isinstance(values, dict) and "query" in values else [arguments]


def _asked(arguments: str) -> str:
    """The value of a call's only argument; else the arguments as they are."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    return str(next(iter(values.values()))) if isinstance(values, dict) and len(values) == 1 else arguments


def groups(earlier: pd.DataFrame, later: pd.DataFrame, names: tuple[str, str]) -> list[Group]:
    """Questions by which of two models succeeded; all four groups, in the order worth reading.

    In a group, the questions with more hops come first, then the source with more questions, then the id decides.

    Args:
        earlier: trajectories of one model, indexed by `question_id`.
        later: those of the other, same index.
        names: how the page calls the two.
    """
    before, after = earlier["success"] == 1, later["success"].reindex(earlier.index) == 1
    kinds = {
        f"only {names[1]} right": after & ~before,
        f"only {names[0]} right": before & ~after,
        "both right": before & after,
        "both wrong": ~before & ~after,
    }
    sizes = earlier["data_source"].value_counts()
    rank = {key: (-hops, -sizes[source], key) for key, hops, source in earlier[["hops", "data_source"]].itertuples()}
    return [Group(name, sorted(earlier.index[chosen], key=rank.__getitem__)) for name, chosen in kinds.items()]


def choose(found: Sequence[Group], count: int) -> list[tuple[str, str]]:
    """At most `count` pairs of group and question id, group by group.

    The first group, what has been learnt, gets every second place; the others share the rest in turn. A group
    that runs out leaves its places to those that do not.

    Args:
        found: what `groups` returned.
        count: how many, > 0.
    """
    if not found:
        return []
    learnt, others = found[0], found[1:]
    longest = max((len(group.ids) for group in others), default=0)
    rest = [(group.name, group.ids[n]) for n in range(longest) for group in others if n < len(group.ids)]
    first = min(len(learnt.ids), max(-(-count // 2), count - len(rest)))
    order = {group.name: n for n, group in enumerate(found)}
    return [
        *((learnt.name, key) for key in learnt.ids[:first]),
        *sorted(rest[: count - first], key=lambda pair: order[pair[0]]),
    ]
