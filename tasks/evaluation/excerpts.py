"""Trajectories cut into pieces that a page can colour, and the choice of the few that are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tasks.agent.protocols import SearchR1

_ROLES = {"think": "thought", "search": "query", "answer": "answer"}
_BLOCK = re.compile(rf"<({'|'.join(tag for tag in SearchR1().tags if tag in _ROLES)})>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A piece of text and its part: plain, thought, query, answer or gold."""

    part: str
    text: str


@dataclass(frozen=True)
class Group:
    """Questions on which two models agree or differ."""

    name: str
    ids: list[str]


def generated_pieces(text: str) -> list[Piece]:
    """The blocks of a generated text, tags included, and what stands between them."""
    pieces, text, end = [], text.strip(), 0
    for block in _BLOCK.finditer(text):
        pieces += [Piece("plain", text[end : block.start()]), Piece(_ROLES[block.group(1)], block.group(0))]
        end = block.end()
    return [piece for piece in (*pieces, Piece("plain", text[end:])) if piece.text]


def observed_pieces(text: str, golden: Sequence[str]) -> list[Piece]:
    """An observation with the golden answers in it marked, as whole words in any case."""
    answers = sorted((re.escape(answer) for answer in golden if answer.strip()), key=len, reverse=True)
    if not answers:
        return [Piece("plain", text)]
    parts = re.split(rf"(?<!\w)({'|'.join(answers)})(?!\w)", text, flags=re.IGNORECASE)
    return [Piece("gold" if i % 2 else "plain", part) for i, part in enumerate(parts) if part]


def segments(row: Any) -> list[dict[str, Any]]:
    """The segments of a recorded trajectory with their pieces: kind, tokens, pieces."""
    return [
        {
            "kind": segment["kind"],
            "tokens": segment["tokens"],
            "pieces": generated_pieces(segment["text"])
            if segment["kind"] == "generated"
            else observed_pieces(segment["text"].strip(), list(row["golden_answers"])),
        }
        for segment in json.loads(row["segments"])
    ]


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
