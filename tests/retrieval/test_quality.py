"""The measures, worked out by hand, and the figures of the real test sets."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import params
from tasks.errors import InputError
from tasks.retrieval import Hit, Passage, open_retriever, quality
from tasks.retrieval.index.build import build
from tasks.retrieval.index.passages import Passages

REAL = Path(__file__).parents[3] / "shared" / "data"


def row(
    source: str, question: str, gold: Sequence[Any], titles: Sequence[str] = (), hops: int = 1
) -> dict[str, dict[str, Any] | str]:
    info = {"question": question, "gold_passage_ids": gold, "supporting_titles": titles, "hops": hops}
    return {"data_source": source, "extra_info": info}


def questions(*rows: dict[str, Any]) -> list[quality.GoldQuestion]:
    return quality.gold_questions(rows)[0]


class Ranked:
    """A retriever whose rankings are known: a letter is a passage, its capital the title of the passage."""

    def __init__(self, rankings: dict[str, str]) -> None:
        self._rankings = rankings
        self.asked: list[tuple[list[str], int]] = []

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        self.asked.append((list(queries), topk))
        return [[Hit(Passage(key, key.upper(), ""), 1.0) for key in self._rankings[query][:topk]] for query in queries]

    def session(self) -> "Ranked":
        return self


def test_recall_all_support_and_mrr_by_hand() -> None:
    retriever = Ranked({"q1": "abcdefghijk", "q2": "abcdefghijk", "q3": "xy", "q4": ""})
    asked, without = quality.gold_questions(
        [
            row("multi", "q1", ["b", "d"], hops=2),  # 1 of 2 within 3, both within 10; the first at rank 2
            row("multi", "q2", ["a", "b", "a"], hops=2),  # both within 3; an id that is named twice counts once; rank 1
            row("multi", "q3", ["k"], hops=3),  # never
            row("single", "q2", ["k"]),  # rank 11: beyond 10
            row("single", "q4", ["a"]),  # nothing found at all
            row("single", "q1", []),
        ]
    )
    assert without == 1
    found = quality.measure(retriever, asked)
    assert found["recall"]["multi"] == pytest.approx({"3": (0.5 + 1 + 0) / 3, "10": 2 / 3})
    assert found["all_support"]["multi"] == pytest.approx({"3": 1 / 3, "10": 2 / 3})
    assert found["recall"]["single"] == found["all_support"]["single"] == {"3": 0.0, "10": 0.0}
    assert found["mrr"] == {"multi": (1 / 2 + 1 + 0) / 3, "single": 0.0}
    assert {source: list(of) for source, of in found["by_hops"].items()} == {"multi": ["2", "3"], "single": ["1"]}
    assert found["by_hops"]["multi"]["2"]["questions"] == 2
    assert found["by_hops"]["multi"]["2"]["recall"] == {"3": 0.75, "10": 1.0}
    assert found["by_hops"]["multi"]["2"]["mrr"] == 0.75
    # No question names a title: there is no oracle, and nothing by title.
    assert found["oracle"] == {"multi": {"3": None}, "single": {"3": None}}
    assert found["headroom"] == {"multi": None, "single": None} and found["by_title"] == {}


def test_the_oracle_adds_the_first_3_of_every_gold_title() -> None:
    retriever = Ranked({"q1": "axyz", "q2": "wxyzb", "q3": "ab", "q4": "x", "A": "a", "B": "vwub", "C": "xyc"})
    asked = questions(
        row("s", "q1", ["a", "c"], ["A", "C"]),  # c comes with C's search
        row("s", "q2", ["b"], ["B"]),  # rank 5 by itself and 4 of B's search: neither is among the first 3
        row("s", "q3", ["a", "b"], ["A", "B"]),  # the question's own search is enough, though B's does not find b
        row("s", "q4", ["x"]),  # found, but without a title: left out of oracle and head-room
    )
    found = quality.measure(retriever, asked)
    assert found["all_support"]["s"]["3"] == 2 / 4
    assert found["oracle"]["s"] == {"3": 2 / 3}
    assert found["headroom"]["s"] == pytest.approx(2 / 3 - 1 / 3)  # of the three questions with titles
    assert found["by_hops"]["s"]["1"]["oracle_questions"] == 3
    assert quality.counts(asked) == {"s": {"questions": 4, "oracle_questions": 3}}
    # Each title is searched for once, all in one call.
    assert retriever.asked == [(["q1", "q2", "q3", "q4"], 10), (["A", "B", "C"], 3)]


def test_by_title_any_passage_of_the_title_counts() -> None:
    class Titled(Ranked):
        def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
            return [[Hit(Passage(f"{query}{n}", "T", ""), 1.0) for n in range(3)] for query in queries]

    found = quality.measure(Titled({}), questions(row("s", "q", ["other"], ["T"])))
    assert found["recall"]["s"]["3"] == found["oracle"]["s"]["3"] == found["mrr"]["s"] == 0.0
    assert found["by_title"]["s"]["recall"]["3"] == found["by_title"]["s"]["oracle"]["3"] == 1.0
    assert found["by_title"]["s"]["mrr"] == 1.0 and found["by_title"]["s"]["headroom"] == 0.0


def test_many_queries_are_asked_in_calls_of_bounded_size() -> None:
    retriever = Ranked({f"q{n}": f"{n}" for n in range(600)})
    asked = [row("s", f"q{n}", [str(n)[0]]) for n in range(600)]
    assert quality.measure(retriever, questions(*asked))["recall"]["s"]["3"] == 1.0
    assert [len(queries) for queries, _ in retriever.asked] == [64] * 9 + [24]
    assert [query for queries, _ in retriever.asked for query in queries] == [f"q{n}" for n in range(600)]


KEYS = st.text(alphabet="abcdefghijklmnop", min_size=1, max_size=1)


@given(
    st.lists(st.tuples(st.sets(KEYS, min_size=1), st.lists(KEYS, unique=True), st.none() | st.lists(KEYS)), min_size=1)
)
def test_how_the_measures_lie_to_each_other(found: list[tuple[set[str], list[str], list[str] | None]]) -> None:
    judged = [quality.judge(gold, ranking, more) for gold, ranking, more in found]
    means = quality.summary(judged)
    for k in ("3", "10"):
        assert 0 <= means["all_support"][k] <= means["recall"][k] <= 1
    assert means["recall"]["3"] <= means["recall"]["10"]
    for one in judged:
        assert (one.reciprocal_rank > 0) == (one.recall[1] > 0)
        assert (one.reciprocal_rank >= 1 / 3) == (one.recall[0] > 0)
    assert means["oracle_questions"] == sum(more is not None for _, _, more in found)
    if means["oracle_questions"]:
        assert means["headroom"] >= 0
    if means["oracle_questions"] == means["questions"]:
        assert means["headroom"] == pytest.approx(means["oracle"]["3"] - means["all_support"]["3"])


def test_the_lowest_figures_are_those_of_the_source_served_worst() -> None:
    figures = {
        "recall": {"bm25": {"a": {"3": 0.9, "10": 1.0}, "b": {"3": 0.4, "10": 0.5}}},
        "all_support": {"bm25": {"a": {"3": 0.1, "10": 0.2}, "b": {"3": 0.3, "10": 0.5}}},
        "mrr": {"bm25": {"a": 0.7, "b": 0.8}},
        "oracle": {"bm25": {"a": {"3": None}, "b": {"3": 0.9}}},
    }
    assert quality.lowest(figures, "bm25") == {
        "lowest_recall_at_3": 0.4,
        "lowest_all_support_at_10": 0.2,
        "lowest_mrr": 0.7,
        "lowest_oracle_at_3": 0.9,
    }
    assert set(quality.lowest(figures, "wikipedia").values()) == {None}


def test_the_table_has_a_line_for_every_retriever_and_source() -> None:
    retriever = Ranked({"q1": "axyz", "q2": "b", "A": "a", "C": "xyc"})
    asked = questions(row("multi", "q1", ["a", "c"], ["A", "C"]), row("one", "q2", ["b"]))
    measured = quality.measure(retriever, asked)
    figures = {name: {"bm25": found, "dense": found} for name, found in measured.items()}
    lines = quality.table({**figures, "by_source": quality.counts(asked)})
    assert [line.split() for line in lines] == [
        ["retriever", "source", "n", "recall@3", "all@3", "all@10", "MRR", "oracle@3", "head-room"],
        ["bm25", "multi", "1", "0.500", "0.000", "0.000", "1.000", "1.000", "+1.000"],
        ["bm25", "one", "1", "1.000", "1.000", "1.000", "1.000", "-", "-"],
        ["dense", "multi", "1", "0.500", "0.000", "0.000", "1.000", "1.000", "+1.000"],
        ["dense", "one", "1", "1.000", "1.000", "1.000", "1.000", "-", "-"],
    ]
    assert len({len(line) for line in lines}) == 1
    assert quality.table({"recall": {}}) == []


def test_no_questions_give_no_figures() -> None:
    found = quality.measure(Ranked({}), [])
    assert all(value == {} for value in found.values())


def test_a_gold_passage_that_does_not_exist_is_refused(build_index, tmp_path: Path) -> None:
    passages = Passages(build_index(tmp_path / "index", [("p0", "Rome", "Rome is a city.", None)]))
    quality.require_gold(passages, questions(row("s", "capital of Italy", ["p0"])))
    with pytest.raises(InputError, match="no passage with id 'p77'"):
        quality.require_gold(passages, questions(row("s", "capital of Italy", ["p0", "p77"])))


# Stemmed bm25s with the question as the only query, by title: recall @3 and @10, all support @3 and @10, oracle.
PUBLISHED = {
    "hotpotqa": (0.647, 0.833, 0.372, 0.674, 0.950),
    "nq": (0.748, 0.877, 0.748, 0.877, None),
    "squad": (0.902, 0.943, 0.902, 0.943, None),
}


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not beside this checkout")
def test_the_real_sets_are_found_as_well_as_was_measured_before(
    tmp_path: Path, defaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pyarrow.json.read_json(REAL / "corpus/wiki_passages.jsonl.gz")
    names = ("id", "title", "text")
    pq.write_table(pa.table({name: table[name].cast(pa.string()) for name in names}), tmp_path / "corpus.parquet")
    monkeypatch.chdir(Path(__file__).parents[2])
    section = {**params.resolve("retrievers")["index"], "build": ["bm25"]}
    (tmp_path / "index").mkdir()
    build(tmp_path / "corpus.parquet", tmp_path / "index", params.Index.model_validate(section), print)
    lines = [line for name in PUBLISHED for line in (REAL / f"qa/{name}.test.jsonl").read_text().splitlines()]
    asked = [
        row(one["data_source"], one["question"], one["gold_passage_ids"], one["supporting_titles"], one["hops"])
        for one in map(json.loads, lines)
    ]
    found = quality.measure(open_retriever(tmp_path / "index", defaults.retrieval), questions(*asked))
    for source, (*published, oracle) in PUBLISHED.items():
        of = found["by_title"][source]
        measured = [*of["recall"].values(), *of["all_support"].values()]
        worse = [(ours, theirs) for ours, theirs in zip(measured, published, strict=True) if ours < theirs - 5e-4]
        assert not worse, source
        assert oracle is None or of["oracle"]["3"] >= oracle - 5e-4
        assert found["headroom"][source] > 0
