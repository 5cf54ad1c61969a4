"""Trajectories as a page carries them: which of them, what of them, and how they are packed.

A page draws nothing but the trajectory that is looked at, so all of them lie in it as data: JSON, compressed, in
base64, which holds no character that could end the script element around it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from tasks.evaluation.audit.flags import FLAGS, flags_of
from tasks.evaluation.report import excerpts

# Packed bytes for one trajectory, and for how many the room of a small page suffices: 500 take 2.2 MB at most.
ROOM, FEW = 4_500, 500
# Characters of a segment that are kept: the first limit with which all trajectories have room.
_LIMITS = (None, 16_000, 8_000, 4_000, 2_000, 1_000, 500, 200, 100)
# Characters of what was asked and answered, beside the segments that have it whole.
_SHORT = 400


def choose(frame: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    """At most `count` trajectories, all models' of a question together, the last model's first, to be compared.

    Questions are drawn in turn from groups of the same outcome (which models were right), so that every outcome is
    there as far as it goes; in a group, a hash of seed and question id decides.

    Args:
        frame: all trajectories; every model has played every question.
        count: > 0; one question is shown at least.
        seed: of the draw.
    """
    models = list(frame["model"].unique())
    right = (frame.assign(right=frame["success"] == 1).pivot(index="question_id", columns="model", values="right"))[
        models
    ]
    order = {key: hashlib.sha256(f"{seed}:{key}".encode()).hexdigest() for key in right.index}
    # The place of a question in its group; those of all groups take turns.
    groups = {key: tuple(values) for key, values in zip(right.index, right.to_numpy().tolist(), strict=True)}
    place: dict[str, int] = {}
    filled: dict[tuple[bool, ...], int] = {}
    for key in sorted(order, key=order.__getitem__):
        place[key] = filled[groups[key]] = filled.get(groups[key], -1) + 1
    taken = sorted(order, key=lambda key: (place[key], order[key]))[: max(1, count // len(models))]
    rank = {key: n for n, key in enumerate(sorted(taken, key=order.__getitem__))}
    shown = frame[frame["question_id"].isin(rank)].iloc[::-1]
    return shown.sort_values("question_id", key=lambda ids: ids.map(rank), kind="stable").reset_index(drop=True)


def pack(shown: pd.DataFrame, names: Mapping[str, str], **more: Any) -> str:
    """The trajectories as text for a script element.

    Args:
        shown: rows of the evaluation's frame.
        names: how the page calls each model, in the page's order.
        more: what the page needs beside them.

    Returns:
        base64 of gzipped JSON: `{"models": {ID: name}, "flags": {NAME: meaning}, "questions": [...], "runs": [...],
        **more}`; a run names its question by its place in the list. The longest segments are cut in the middle until
        all have room.
    """
    rows = shown.to_dict("records")
    parsed = [excerpts.segments(row) for row in rows]
    first = {row["question_id"]: row for row in reversed(rows)}
    places = {key: n for n, key in enumerate(dict.fromkeys(row["question_id"] for row in rows))}
    runs = [_run(row, places[row["question_id"]]) for row in rows]
    meanings = {name: flag.meaning for name, flag in FLAGS.items()}
    questions = [_question(first[key]) for key in places]
    whole = {"models": names, "flags": meanings, "questions": questions, "runs": runs, **more}
    packed = ""
    for limit in _LIMITS:
        for run, segments in zip(runs, parsed, strict=True):
            run["segments"] = [_segment(one, limit) for one in segments]
        packed = _packed(whole)
        if len(packed) <= ROOM * max(FEW, len(rows)):
            break
    return packed


def _packed(content: Any) -> str:
    # NaN is no JSON: a browser would refuse all of it.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode("ascii")


def _question(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["question_id"],
        "text": row["question"],
        "golden": _texts(row["golden_answers"]),
        "source": row["data_source"],
        "hops": int(row["hops"]),
        "type": row["type"] if isinstance(row["type"], str) else None,
        "gold": _texts(row["gold_passage_ids"]),
    }


def _run(row: Mapping[str, Any], place: int) -> dict[str, Any]:
    calls = excerpts.calls(row)
    gold = set(_texts(row["gold_passage_ids"]))
    seen = {key for call in calls for key in call["passages"] or ()}
    return {
        "question": place,
        "model": row["model"],
        "right": bool(row["success"] == 1),
        "em": float(row["em"]),
        "f1": float(row["f1"]),
        "reward": round(float(row["reward"]), 6),
        "parts": {name: round(value, 6) for name, value in json.loads(row["reward_parts"]).items() if value},
        "searches": int(row["searches"]),
        "turns": int(row["turns"]),
        "tokens": int(row["generated_tokens"]),
        "stop": row["stop_reason"],
        "answer": _short(row["answer"]) if isinstance(row["answer"], str) else None,
        "cited": list(row["cited"]),
        "facts": len(json.loads(row["facts"])),
        "found": len(gold & seen) if gold else None,
        "calls": [[call["tool"], _short(call["asked"]), call["failure"], call["passages"]] for call in calls],
        "flags": flags_of(row),
        "segments": [],
    }


def _segment(segment: Mapping[str, Any], limit: int | None) -> list[Any]:
    pieces: Sequence[excerpts.Piece] = segment["pieces"]
    if limit is not None:
        pieces = excerpts.shorten(pieces, limit)
    return [segment["kind"], segment["tokens"], [[piece.part, piece.text] for piece in pieces]]


def _texts(values: Iterable[Any]) -> list[str]:
    return [str(one) for one in values]


def _short(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
