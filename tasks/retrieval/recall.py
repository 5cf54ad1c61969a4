"""Recall of an index against gold passages, with the question as the only query.

On multi-hop questions the later passages are hard to find by the question alone: that gap is what
several searches are for, so a low figure there is a property of the task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tasks.retrieval.passages import Passages
from tasks.retrieval.retriever import Retriever

KS = (3, 10)


@dataclass(frozen=True)
class GoldQuestion:
    """A question and the passages that answer it."""

    data_source: str
    question: str
    gold: frozenset[str]


def gold_questions(rows: Iterable[dict[str, Any]]) -> tuple[list[GoldQuestion], int]:
    """Questions of the data contract's rows that name gold passages, and how many rows name none."""
    found, without = [], 0
    for row in rows:
        info = row["extra_info"]
        gold = frozenset(str(key) for key in info["gold_passage_ids"] or ())
        if gold:
            found.append(GoldQuestion(row["data_source"], info["question"], gold))
        else:
            without += 1
    return found, without


def require_gold(passages: Passages, questions: Iterable[GoldQuestion]) -> None:
    """Make sure that the index holds what the questions name.

    Raises:
        InputError: a gold passage is not in the index.
    """
    for question in questions:
        for key in sorted(question.gold):
            passages.by_id(key)


def measure(retriever: Retriever, questions: Sequence[GoldQuestion]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean recall@k and the share of questions with all gold passages among the first k.

    Returns:
        `{"recall": {SOURCE: {"3": x, "10": y}}, "all_support": {SOURCE: {"3": x, "10": y}}}`, in [0, 1].

    Raises:
        UnavailableError: the retriever cannot answer.
    """
    recalls: dict[str, list[list[float]]] = defaultdict(list)
    hits = retriever.search([question.question for question in questions], max(KS))
    for question, found in zip(questions, hits, strict=True):
        ids = [hit.passage.id for hit in found]
        recalls[question.data_source].append(
            [len(question.gold.intersection(ids[:k])) / len(question.gold) for k in KS]
        )
    sources = sorted(recalls)
    return {
        "recall": {s: {str(k): fmean(r[i] for r in recalls[s]) for i, k in enumerate(KS)} for s in sources},
        "all_support": {s: {str(k): fmean(r[i] == 1 for r in recalls[s]) for i, k in enumerate(KS)} for s in sources},
    }
