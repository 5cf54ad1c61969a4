"""Stage index over a small corpus: the real build, the real retrievers."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import index, tracking
from tasks.agent.environments.search.environment import Environment
from tasks.errors import InputError
from tasks.retrieval import open_retriever

PASSAGES = [(f"p{n}", f"City {n}", f"City {n} lies in land {n % 3}.", None) for n in range(12)]
WIKIPEDIA = {"retriever": "wikipedia", "wikipedia": {"contact": "us@example.org"}}
LOWEST = ("lowest_recall_at_3", "lowest_all_support_at_10", "lowest_mrr", "lowest_oracle_at_3")


@pytest.fixture
def stage(make_stage, question_row, write_corpus):
    def make(gold: bool = True, titles: bool = True, passages: list[tuple] = PASSAGES, **top: Any):
        section = {"build": ["bm25", "dense"], "dense": {"dimensions": 16}, **top.pop("index", {})}
        made = make_stage("index", index=section, **top)
        write_corpus(Path("data/ingest/corpus.parquet"), passages)
        for split, numbers in (("validation", (1, 2)), ("test", (3, 4, 5))):
            rows = []
            for n in numbers:
                # One hop by its own name; of the last question the second passage takes a search of its own.
                found = [n, 11] if n == 5 else [n]
                named = [f"City {m}" for m in found] if titles else []
                passage_ids = [f"p{m}" for m in found] if gold else []
                rows.append(question_row(f"Where is city {n}?", ["x"], named, passage_ids, data_source=split))
            pq.write_table(pa.Table.from_pylist(rows), f"data/ingest/{split}.parquet")
        return made

    return make


def test_every_retriever_that_is_built_is_measured_and_opens_from_the_folder(stage, capsys) -> None:
    made = stage()
    figures = index.run(made)
    assert figures["passages"] == 12 and figures["questions"] == 5
    assert figures["questions_without_gold"] == figures["questions_without_titles"] == 0
    assert figures["by_source"] == {
        "test": {"questions": 3, "oracle_questions": 3},
        "validation": {"questions": 2, "oracle_questions": 2},
    }
    for name in ("recall", "all_support", "mrr", "oracle", "headroom", "by_hops", "by_title"):
        assert set(figures[name]) == {"bm25", "dense", "hybrid"}, name
        assert set(figures[name]["bm25"]) == {"test", "validation"}, name
    assert figures["recall"]["bm25"]["validation"] == {"3": 1.0, "10": 1.0}
    # The two-hop question finds one of its two by itself, and the other one by the other's title.
    assert figures["all_support"]["bm25"]["test"]["3"] == pytest.approx(2 / 3)
    assert figures["oracle"]["bm25"] == {"test": {"3": 1.0}, "validation": {"3": 1.0}}
    assert figures["headroom"]["bm25"] == {"test": pytest.approx(1 / 3), "validation": 0.0}
    assert figures["by_hops"]["bm25"]["test"]["2"]["all_support"]["3"] == 0.0
    assert figures["by_hops"]["bm25"]["test"]["2"]["questions"] == 1
    assert made.track.artifacts == ["manifest.json", "retrieval.png"]
    assert open_retriever(made.out, made.params.retrieval).search(["city 7"], 1)[0][0].passage.id == "p7"
    told = capsys.readouterr().out
    assert "retriever  source" in told and len([line for line in told.splitlines() if "  test  " in line]) == 3
    assert "warning" not in told


def test_the_lowest_figures_are_the_configured_retrievers(stage) -> None:
    figures = index.run(stage(retrieval={"retriever": "dense"}))
    assert figures["lowest_recall_at_3"] == min(at["3"] for at in figures["recall"]["dense"].values())
    assert figures["lowest_all_support_at_10"] == min(at["10"] for at in figures["all_support"]["dense"].values())
    assert figures["lowest_mrr"] == min(figures["mrr"]["dense"].values())
    assert figures["lowest_oracle_at_3"] == min(at["3"] for at in figures["oracle"]["dense"].values())


def test_a_server_is_not_asked(stage) -> None:
    figures = index.run(stage(retrieval={"server": "http://127.0.0.1:9"}))
    assert figures["lowest_mrr"] is not None


def test_what_is_not_built_is_not_measured(stage) -> None:
    made = stage(index={"build": ["bm25"]})
    assert set(index.run(made)["recall"]) == {"bm25"}
    assert not (made.out / "dense").exists()


def test_qdrant_is_measured_like_the_others_and_finds_what_dense_finds(stage) -> None:
    # In fewer dimensions many passages are equally near, and each engine puts them in an order of its own.
    section = {"build": ["dense", "qdrant"], "dense": {"dimensions": 256}}
    figures = index.run(stage(index=section, retrieval={"retriever": "qdrant"}))
    assert set(figures["recall"]) == {"dense", "qdrant"}
    for name in ("recall", "oracle", "by_hops"):
        assert figures[name]["qdrant"] == figures[name]["dense"], name
    assert figures["lowest_recall_at_3"] == min(at["3"] for at in figures["recall"]["qdrant"].values())


def test_of_wikipedia_nothing_is_measured_and_the_gate_has_no_figure(stage, capsys) -> None:
    made = stage(retrieval=WIKIPEDIA, index={"build": ["bm25"]})
    figures = index.run(made)
    assert figures["recall"]["bm25"]["test"]["3"] > 0
    assert {figures[name] for name in LOWEST} == {None}
    assert made.track.artifacts == ["manifest.json"]
    assert "nothing is measured of retriever 'wikipedia': gate checks on index.lowest_* fail" in capsys.readouterr().out


def test_wikipedia_needs_no_passages(stage, capsys) -> None:
    made = stage(gold=False, passages=[], retrieval=WIKIPEDIA)
    figures = index.run(made)
    assert figures["passages"] == 0 and figures["recall"] == {} and {figures[name] for name in LOWEST} == {None}
    assert list(made.out.iterdir()) == []
    assert "there are no passages" in capsys.readouterr().out


def test_a_local_retriever_needs_passages(stage) -> None:
    with pytest.raises(InputError, match="no passages"):
        index.run(stage(gold=False, passages=[]))


def test_questions_without_gold_passages_are_counted_and_measured_nowhere(stage, capsys) -> None:
    figures = index.run(stage(gold=False))
    assert figures["recall"] == {} and {figures[name] for name in LOWEST} == {None}
    assert figures["questions_without_gold"] == 5
    assert "nothing is measured of retriever 'bm25'" in capsys.readouterr().out


def test_questions_without_titles_are_counted_and_have_no_oracle(stage) -> None:
    made = stage(titles=False, index={"build": ["bm25"]})
    figures = index.run(made)
    assert figures["questions_without_titles"] == 5
    assert figures["oracle"]["bm25"]["test"] == {"3": None} and figures["headroom"]["bm25"]["test"] is None
    assert figures["recall"]["bm25"]["test"]["3"] > 0
    assert "retrieval.png" in made.track.artifacts


def test_the_figures_are_json_and_metrics(stage) -> None:
    figures = index.run(stage(index={"build": ["bm25"]}))
    json.dumps(figures, allow_nan=False)
    flat = dict(tracking.flatten(figures))
    assert flat["headroom.bm25.test"] == pytest.approx(1 / 3) and flat["mrr.bm25.validation"] == 1.0
    assert all(math.isfinite(value) for value in flat.values() if value is not None)


def test_an_unknown_gold_passage_is_wrong_input(stage, question_row) -> None:
    made = stage()
    pq.write_table(
        pa.Table.from_pylist([question_row("Where?", ["x"], ["t"], ["p99"])]), "data/ingest/validation.parquet"
    )
    with pytest.raises(InputError, match="p99"):
        index.run(made)


def test_what_a_killed_build_left_is_kept_until_the_outputs_are_in_place(stage, monkeypatch) -> None:
    given: list[Path] = []
    real = index.build

    def build(*arguments: Any, resume: Path, **more: Any) -> dict:
        given.append(resume)
        (resume / "shard").write_text("done")
        if len(given) == 1:
            raise KeyboardInterrupt
        return real(*arguments, resume=resume, **more)

    monkeypatch.setattr(index, "build", build)
    made = stage()
    with pytest.raises(KeyboardInterrupt):
        index.run(made)
    assert (given[0] / "shard").exists()
    index.run(made)
    assert given[1] == given[0] == Path("checkpoints", made.fingerprint())
    assert (given[0] / "shard").exists()
    made.finish()
    assert not list(Path("checkpoints").iterdir())


def test_an_environment_that_searches_nothing_needs_no_index(stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "needs_retrieval", False)
    made = stage()
    assert index.run(made)["passages"] == 0
    assert list(made.out.iterdir()) == []


def test_spread_meets_every_source_of_a_sorted_file() -> None:
    assert index.spread(list("aaaaaabbbccc"), 4) == ["a", "a", "b", "c"]
    assert index.spread([1, 2], 4) == [1, 2]
