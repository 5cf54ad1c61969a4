from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import index
from tasks.agent.environments.search.environment import Environment
from tasks.errors import InputError
from tasks.retrieval import load

PASSAGES = [(f"p{n}", f"City {n}", f"City {n} lies in land {n % 3}.", None) for n in range(12)]


@pytest.fixture
def stage(make_stage, question_row, write_corpus):
    def make(gold: bool = True, **top):
        made = make_stage("index", index={"faiss": {"dimensions": 16}}, **top)
        write_corpus(Path("data/ingest/corpus.parquet"), PASSAGES)
        for split, numbers in (("validation", (1, 2)), ("test", (3, 4, 5))):
            rows = [
                question_row(f"Where is city {n}?", ["x"], [f"City {n}"], [f"p{n}"] if gold else [], data_source=split)
                for n in numbers
            ]
            pq.write_table(pa.Table.from_pylist(rows), f"data/ingest/{split}.parquet")
        return made

    return make


def test_the_index_is_measured_and_opens_from_its_folder(stage) -> None:
    made = stage()
    figures = index.run(made)
    assert figures["passages"] == 12 and figures["questions"] == 5 and figures["questions_without_gold"] == 0
    assert set(figures["recall"]) == set(figures["all_support"]) == {"bm25", "faiss"}
    assert figures["recall"]["bm25"] == {"test": {"3": 1.0, "10": 1.0}, "validation": {"3": 1.0, "10": 1.0}}
    assert figures["lowest_recall_at_3"] == 1.0
    assert made.track.artifacts == ["manifest.json"]
    assert load(made.out, made.params.retrieval).search(["city 7"], 1)[0][0].passage.id == "p7"


def test_the_lowest_recall_is_the_configured_retrievers(stage) -> None:
    figures = index.run(stage(retrieval={"retriever": "faiss"}))
    assert figures["lowest_recall_at_3"] == min(at["3"] for at in figures["recall"]["faiss"].values())


def test_questions_without_gold_passages_are_counted_and_measured_nowhere(stage) -> None:
    figures = index.run(stage(gold=False))
    assert figures["recall"] == {} and figures["lowest_recall_at_3"] is None
    assert figures["questions_without_gold"] == 5


def test_an_unknown_gold_passage_is_wrong_input(stage, question_row) -> None:
    made = stage()
    pq.write_table(
        pa.Table.from_pylist([question_row("Where?", ["x"], ["t"], ["p99"])]), "data/ingest/validation.parquet"
    )
    with pytest.raises(InputError, match="p99"):
        index.run(made)


def test_an_environment_that_searches_nothing_needs_no_index(stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "needs_retrieval", False)
    made = stage()
    assert index.run(made)["passages"] == 0
    assert list(made.out.iterdir()) == []


def test_spread_meets_every_source_of_a_sorted_file() -> None:
    assert index.spread(list("aaaaaabbbccc"), 4) == ["a", "a", "b", "c"]
    assert index.spread([1, 2], 4) == [1, 2]
