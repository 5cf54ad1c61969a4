"""Retrieval that cannot find the support: no policy can read what no search brings."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tasks.agent.rewards.answers import YES_NO, holds_answer, normalise
from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import RunData, in_hops

ORACLE = 0.8  # lowest share of questions whose gold is found with the gold titles as queries: the gate's `findable`
NAMED = 0.8  # share of the searches for a gold passage's own title that must bring it: what the oracle does, at topk
FOUND = 0.3  # share of the episodes that search and find any gold passage, below which searching is in vain
EMPTY = 0.5  # share of the searches that bring nothing, where titles are not known
READABLE = 0.7  # share of the episodes with all gold passages found whose shown text holds the answer
ENOUGH = 10  # searches or episodes below which nothing is said
INDEX_MEND = (
    "look at stage index's table (data/index/figures.json): choose the retriever that finds most "
    "(retrieval.retriever), raise retrieval.topk, and check that ingest.corpus holds the questions' passages"
)
TOPK_MEND = f"raise retrieval.topk, or take another retriever; {INDEX_MEND}"
CORPUS_MEND = (
    "the index is of another corpus than the questions': name the right one in ingest.corpus, `dvc repro index`"
)
TEXT_MEND = (
    "the gold passages' texts do not hold the answers: see whether ingest.corpus and the questions belong together"
)


def retrieval(data: RunData) -> Finding:
    """The index's own figures, what searches for a gold title brought, and whether what was found holds the answer."""
    look = Look("retrieval", "Retrieval that cannot find the support")
    _index(look, data)
    frame = data.episodes
    if frame is None:
        look.lacking(f"what the rollouts' searches found: {data.why('rollouts')}")
        return look.finding()
    searched = frame[frame["found"].map(len) > 0]
    if searched.empty:
        look.lacking("what the rollouts' searches found: none of them searched")
        return look.finding()
    _corpus(look, data, frame)
    named = _named(look, data, searched)
    _hits(look, data, searched, named)
    _readable(look, data, searched)
    return look.finding()


def _index(look: Look, data: RunData) -> None:
    if data.index is None:
        look.missing(f"the index's figures: {data.why('index')}")
        return
    oracle = data.index.get("lowest_oracle_at_3")
    if oracle is None:
        look.missing("the index's figures: the retriever in force was not measured with an oracle's queries")
        return
    look.judge(
        oracle < ORACLE,
        f"searching for the gold titles finds all gold passages of {oracle:.0%} of the held-out questions "
        f"(of the source that is served worst; {ORACLE:.0%} are asked for)",
        INDEX_MEND,
    )


def _corpus(look: Look, data: RunData, frame: pd.DataFrame) -> None:
    if data.passages is None:
        look.missing(f"whether all passages are the corpus's: {data.why('passages')}")
        return
    if data.param("retrieval.retriever") == "wikipedia" or not data.passages:
        return
    seen = {one for found in frame["found"] for ids in found for one in ids}
    gold = {one for ids in frame["gold"] for one in ids}
    strange, lacking = seen - data.passages.keys(), gold - data.passages.keys()
    look.judge(
        bool(strange),
        f"{len(strange):,} of {len(seen):,} passages that searches brought are not in the corpus",
        CORPUS_MEND,
    )
    if gold:
        look.judge(bool(lacking), f"{len(lacking):,} of {len(gold):,} gold passages are not in the corpus", CORPUS_MEND)


def _named(look: Look, data: RunData, frame: pd.DataFrame) -> int:
    """Searches whose query names the title of a gold passage; a row each, and how many there were."""
    titles: Mapping[str, str] = data.passages or {}
    hits: list[bool] = []
    missed: list[tuple[str, str]] = []
    for row in frame.itertuples():
        wanted = {normalise(titles.get(one, "")): one for one in row.gold} if titles else {}
        plain = [normalise(one) for one in row.titles]
        for query, found in zip(row.queries, row.found, strict=False):
            said = normalise(query)
            named = [one for title, one in wanted.items() if holds_answer(said, title)]
            if named or any(holds_answer(said, title) for title in plain):
                hits.append(bool(found & set(named or row.gold)))
                if not hits[-1]:
                    missed.append((f"step {row.step}: {row.question}; searched {query!r}", row.text))
    if len(hits) < ENOUGH:
        look.missing(f"{len(hits)} searches name the title of a gold passage: too few to tell what they find")
        return len(hits)
    share = sum(hits) / len(hits)
    look.judge(
        share < NAMED,
        f"{len(hits):,} searches name the title of a gold passage, and {share:.0%} bring it ({NAMED:.0%} should)",
        TOPK_MEND,
        missed[:2],
    )
    return len(hits)


def _hits(look: Look, data: RunData, frame: pd.DataFrame, named: int) -> None:
    known = frame[frame["any_gold"].notna()]
    searches = [ids for found in frame["found"] for ids in found]
    empty = sum(not ids for ids in searches) / len(searches)
    if len(known) < ENOUGH:
        look.judge(empty >= EMPTY, f"{empty:.0%} of {len(searches):,} searches bring nothing at all", INDEX_MEND)
        return
    parts = [
        f"{in_hops(hop)}: {of['any_gold'].eq(True).mean():.0%} any, {of['all_gold'].eq(True).mean():.0%} all"
        for hop, of in known.groupby("hops")
    ]
    share = known["any_gold"].eq(True).mean()
    # An index that an oracle finds everything in is sound, and what no query names is the policy's to ask for.
    sound = named < ENOUGH and data.index is not None and (data.index.get("lowest_oracle_at_3") or 0.0) >= ORACLE
    look.judge(
        share < FOUND and not sound,
        f"episodes that search and find gold passages: {'; '.join(parts)}; {empty:.0%} of the searches bring nothing"
        + ("" if named >= ENOUGH else "; it may be the queries and not the index: hardly any names a gold title"),
        INDEX_MEND,
    )
    means = known.assign(hit=known["any_gold"].astype(float), whole=known["all_gold"].astype(float)).groupby("step")
    lines = {
        name: [(int(step), float(value)) for step, value in means[column].mean().items()]
        for name, column in (("any gold passage", "hit"), ("all of them", "whole"))
    }
    look.plot = Plot("share of the searching episodes that find gold passages", lines)


def _readable(look: Look, data: RunData, frame: pd.DataFrame) -> None:
    """Whether an answer stands in what was found; where observations are full, it is their budget, see truncation."""
    whole = frame[
        frame["all_gold"].eq(True)
        & ~frame["golden_answers"].map(lambda golden: bool(YES_NO & {*map(normalise, golden)}))
    ]
    if len(whole) < ENOUGH:
        return
    share = whole["answer_shown"].mean()
    if share < READABLE and full_observations(whole, data):
        look.missing("whether the passages hold the answers: they were cut to the budget")
        return
    look.judge(
        share < READABLE,
        f"{share:.0%} of {len(whole):,} episodes that found all gold passages were shown a golden answer in them",
        TEXT_MEND,
        [
            (f"{row.question} (golden: {', '.join(row.golden_answers)})", row.text)
            for row in whole[~whole["answer_shown"]].head(2).itertuples()
        ],
    )


def full_observations(frame: pd.DataFrame, data: RunData) -> bool:
    """Whether the observations of most episodes fill their budget, or the rest of the response's."""
    limit, whole = data.param("episode.max_observation_tokens"), data.param("episode.max_response_tokens")
    if limit is None or whole is None:
        return False
    longest = [
        max((part["tokens"] for part in parts if part["kind"] == "observation"), default=0) for parts in frame["parts"]
    ]
    total = [sum(part["tokens"] for part in parts) for parts in frame["parts"]]
    full = [one >= FULL * limit or every >= FULL * whole for one, every in zip(longest, total, strict=True)]
    return sum(full) > len(full) / 2


FULL = 0.85  # of a budget: texts are cut at the end of a sentence or a word, so that it is rarely used up
