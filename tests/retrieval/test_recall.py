from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.retrieval import Hit, Passage, load, recall


def row(source: str, question: str, gold: list[str]) -> dict:
    return {"data_source": source, "extra_info": {"question": question, "gold_passage_ids": gold}}


class Ranked:
    """A retriever whose rankings are known."""

    def __init__(self, rankings: dict[str, str]) -> None:
        self._rankings = rankings

    def search(self, queries: list[str], topk: int) -> list[list[Hit]]:
        return [[Hit(Passage(key, "", ""), 1.0) for key in self._rankings[query][:topk]] for query in queries]

    def passage(self, key: str) -> Passage:
        return Passage(key, "", "")


def test_recall_by_hand() -> None:
    retriever = Ranked({"q1": "abcdefghijk", "q2": "abcdefghijk", "q3": "xy"})
    questions, without = recall.gold_questions(
        [
            row("multi", "q1", ["a", "d"]),  # 1 of 2 within 3, both within 10
            row("multi", "q2", ["a", "b", "a"]),  # both within 3; an id that is named twice counts once
            row("multi", "q3", ["k"]),  # never
            row("single", "q2", ["k"]),  # rank 11: beyond 10
            row("single", "q1", []),
        ]
    )
    measured = recall.measure(retriever, questions)
    assert without == 1
    assert measured["recall"]["multi"] == pytest.approx({"3": (0.5 + 1 + 0) / 3, "10": 2 / 3})
    assert measured["all_support"]["multi"] == pytest.approx({"3": 1 / 3, "10": 2 / 3})
    assert measured["recall"]["single"] == measured["all_support"]["single"] == {"3": 0.0, "10": 0.0}


def test_recall_of_a_real_index(index: Path, retrieval) -> None:
    questions, _ = recall.gold_questions([row("s", "capital of Italy", ["p0"]), row("s", "large city", ["p1"])])
    assert recall.measure(load(index, retrieval()), questions)["recall"] == {"s": {"3": 1.0, "10": 1.0}}


def test_a_gold_passage_that_does_not_exist_is_refused(index: Path, retrieval) -> None:
    questions, _ = recall.gold_questions([row("s", "capital of Italy", ["p0", "p77"])])
    with pytest.raises(InputError, match="no passage with id 'p77'"):
        recall.measure(load(index, retrieval()), questions)


def test_no_questions_give_no_figures(index: Path, retrieval) -> None:
    assert recall.measure(load(index, retrieval()), []) == {"recall": {}, "all_support": {}}
