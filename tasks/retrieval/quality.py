"""How well an index finds the gold passages: by the question alone, and by the searches of an oracle.

By the question alone: its text is the one query, as a policy would ask that searches once. On multi-hop questions the
later passages are hard to find so; a low figure there is a property of the task.

The oracle knows the titles of the gold passages and searches for each one as well. What its searches find together
is what a policy could have read that asks the right questions: the difference is the head-room for several searches.

Measures, all in [0, 1], as means over questions:
- recall@k: share of the gold passages among the first k.
- all support@k: whether all gold passages are among the first k.
- MRR: 1 / rank of the first gold passage, 0 where none is among the first 10. Source: Voorhees, "The TREC-8 Question
  Answering Track Report" (1999).
- oracle@3: whether all gold passages are among the first 3 of the question and the first 3 of each gold title.
- head-room: oracle@3 less all support@3, over the questions that an oracle has titles for.

Gold are passages, by id. The same by title, where any passage of a gold title counts, is easier wherever an article
has several passages, and is what is mostly published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tasks.retrieval.index.passages import Passages
from tasks.retrieval.retriever import Retriever

KS = (3, 10)
ORACLE_K = 3
_MEASURES = ("recall", "all_support", "mrr", "oracle", "headroom")
# Queries of one call: an index in this process gains nothing by more, and one behind a network has a deadline.
_BATCH = 64


@dataclass(frozen=True)
class GoldQuestion:
    """A question and what answers it.

    Attributes:
        data_source: name of the set.
        question: its text.
        gold: ids of the passages that answer it together.
        titles: supporting titles, what the oracle searches for; there may be none.
        hops: how many of them one after the other lead to the answer.
    """

    data_source: str
    question: str
    gold: frozenset[str]
    titles: frozenset[str]
    hops: int


@dataclass(frozen=True)
class Judged:
    """What was found of one question's gold: recall at each of `KS`; with the oracle's searches all of it or not."""

    recall: tuple[float, ...]
    reciprocal_rank: float
    oracle: bool | None


def gold_questions(rows: Iterable[dict[str, Any]]) -> tuple[list[GoldQuestion], int]:
    """Questions of the data contract's rows that name gold passages, and how many rows name none."""
    found, without = [], 0
    for row in rows:
        info = row["extra_info"]
        gold = frozenset(str(key) for key in info["gold_passage_ids"] or ())
        if gold:
            titles = frozenset(info["supporting_titles"] or ())
            found.append(GoldQuestion(row["data_source"], info["question"], gold, titles, int(info["hops"])))
        else:
            without += 1
    return found, without


def counts(questions: Iterable[GoldQuestion]) -> dict[str, dict[str, int]]:
    """How many questions of each source are measured, and of how many the oracle has titles."""
    found: dict[str, dict[str, int]] = {}
    for question in sorted(questions, key=lambda one: one.data_source):
        count = found.setdefault(question.data_source, {"questions": 0, "oracle_questions": 0})
        count["questions"] += 1
        count["oracle_questions"] += bool(question.titles)
    return found


def require_gold(passages: Passages, questions: Iterable[GoldQuestion]) -> None:
    """Make sure that the index holds what the questions name.

    Raises:
        InputError: a gold passage is not in the index.
    """
    for question in questions:
        for key in sorted(question.gold):
            passages.by_id(key)


def judge(gold: Collection[str], ranking: Sequence[str], more: Iterable[str] | None) -> Judged:
    """Compare what was found with what is gold.

    Args:
        gold: ids or titles; at least one.
        ranking: of the question's own search, best first, in the same terms.
        more: what the oracle's further searches found, in any order; None without an oracle.
    """
    wanted = frozenset(gold)
    recall = tuple(len(wanted.intersection(ranking[:k])) / len(wanted) for k in KS)
    rank = next((rank for rank, key in enumerate(ranking[: KS[-1]], start=1) if key in wanted), None)
    oracle = None if more is None else wanted <= {*ranking[:ORACLE_K], *more}
    return Judged(recall, 1 / rank if rank else 0.0, oracle)


def summary(judged: Sequence[Judged]) -> dict[str, Any]:
    """Means over questions, and over how many; `oracle` and `headroom` are None where no question has an oracle.

    Returns:
        `{"questions", "recall": {"3", "10"}, "all_support": {"3", "10"}, "mrr", "oracle_questions", "oracle": {"3"},
        "headroom"}`.
    """
    # Paired: the head-room compares the same questions before and after.
    pairs = [(one.oracle, one.recall[KS.index(ORACLE_K)] == 1) for one in judged if one.oracle is not None]
    oracle = fmean(after for after, _ in pairs) if pairs else None
    return {
        "questions": len(judged),
        "recall": {str(k): fmean(one.recall[i] for one in judged) for i, k in enumerate(KS)},
        "all_support": {str(k): fmean(one.recall[i] == 1 for one in judged) for i, k in enumerate(KS)},
        "mrr": fmean(one.reciprocal_rank for one in judged),
        "oracle_questions": len(pairs),
        "oracle": {str(ORACLE_K): oracle},
        "headroom": fmean(after - before for after, before in pairs) if pairs else None,
    }


def measure(retriever: Retriever, questions: Sequence[GoldQuestion]) -> dict[str, Any]:
    """Search for every question and every gold title, and judge what was found.

    Returns:
        every measure by source, `{"recall": {SOURCE: {"3", "10"}}, "mrr": {SOURCE: x}, ...}`, and summaries:
        `by_hops`, `{SOURCE: {HOPS: summary}}`, and `by_title`, `{SOURCE: summary}`.

    Raises:
        UnavailableError: the retriever cannot answer.
    """
    rankings = _search(retriever, [question.question for question in questions], KS[-1])
    # Each title once, however many questions share it, and in an order that does not change from run to run.
    titles = sorted({title for question in questions for title in question.titles})
    of_title = dict(zip(titles, _search(retriever, titles, ORACLE_K), strict=True))
    by_source: dict[str, list[Judged]] = defaultdict(list)
    by_hops: dict[str, dict[int, list[Judged]]] = defaultdict(lambda: defaultdict(list))
    by_title: dict[str, list[Judged]] = defaultdict(list)
    for question, ranking in zip(questions, rankings, strict=True):
        ids, found_titles = zip(*ranking, strict=True) if ranking else ((), ())
        more = [hit for title in question.titles for hit in of_title[title]]
        judged = judge(question.gold, ids, [key for key, _ in more] if question.titles else None)
        by_source[question.data_source].append(judged)
        by_hops[question.data_source][question.hops].append(judged)
        if question.titles:
            judged = judge(question.titles, found_titles, [title for _, title in more])
            by_title[question.data_source].append(judged)
    summaries = {source: summary(by_source[source]) for source in sorted(by_source)}
    return {
        **{measure: {source: found[measure] for source, found in summaries.items()} for measure in _MEASURES},
        "by_hops": {
            source: {str(hops): summary(by_hops[source][hops]) for hops in sorted(by_hops[source])}
            for source in summaries
        },
        "by_title": {source: summary(by_title[source]) for source in sorted(by_title)},
    }


def lowest(figures: Mapping[str, Any], retriever: str) -> dict[str, float | None]:
    """What the gate looks at: a retriever's figures for the source that it serves worst.

    Args:
        figures: `{MEASURE: {RETRIEVER: {SOURCE: value}}}`.
        retriever: whose; where it was not measured, all is None, and so is the oracle's where no source has one.
    """
    recall, support, mrr, oracle = (figures.get(name, {}).get(retriever, {}) for name in _MEASURES[:-1])
    return {
        "lowest_recall_at_3": min((at["3"] for at in recall.values()), default=None),
        "lowest_all_support_at_10": min((at["10"] for at in support.values()), default=None),
        "lowest_mrr": min(mrr.values(), default=None),
        "lowest_oracle_at_3": min((at["3"] for at in oracle.values() if at["3"] is not None), default=None),
    }


def table(figures: Mapping[str, Any]) -> list[str]:
    """A heading, and one line a retriever and source; nothing where nothing was measured.

    Args:
        figures: as `lowest` takes them, and `by_source` as `counts` returns it.
    """
    lines = [("retriever", "source", "n", "recall@3", "all@3", "all@10", "MRR", "oracle@3", "head-room")]
    for name, recall in figures["recall"].items():
        for source, at in recall.items():
            support, mrr, oracle, room = (figures[key][name][source] for key in _MEASURES[1:])
            values = (at["3"], support["3"], support["10"], mrr, oracle["3"])
            cells = ("-" if value is None else f"{value:.3f}" for value in values)
            questions = f"{figures['by_source'][source]['questions']:,}"
            lines.append((name, source, questions, *cells, "-" if room is None else f"{room:+.3f}"))
    if len(lines) == 1:
        return []
    first, second, *rest = (max(map(len, column)) for column in zip(*lines, strict=True))
    return [
        "  ".join([name.ljust(first), source.ljust(second), *(f"{c:>{w}}" for c, w in zip(cells, rest, strict=True))])
        for name, source, *cells in lines
    ]


def _search(retriever: Retriever, queries: Sequence[str], topk: int) -> list[list[tuple[str, str]]]:
    """Id and title of the passages that each query finds, best first."""
    found: list[list[tuple[str, str]]] = []
    for start in range(0, len(queries), _BATCH):
        hits = retriever.search(queries[start : start + _BATCH], topk)
        found += [[(hit.passage.id, hit.passage.title) for hit in of_query] for of_query in hits]
    return found
