import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest

from tasks import ingest
from tasks.errors import InputError

SMALL_WORLD = {
    "reader": "world",
    "people": {"train": 40, "validation": 8, "test": 12},
    "questions": {"train": 60, "validation": 8, "test": 20},
    "kinds": {"one-hop": 0.5, "two-hop": 0.3, "comparison": 0.2},
}


def file_source(path: str, split: str, **more: object) -> dict:
    return {"reader": "jsonl", "name": "mine", "path": path, "split": split, **more}


def rows(start: int, count: int, **more: object) -> str:
    made = [
        {"id": f"q{n}", "question": f"Who is {n}?", "golden_answers": ["x"], "gold_passage_ids": [n], **more}
        for n in range(start, start + count)
    ]
    return "".join(json.dumps(row) + "\n" for row in made)


@pytest.fixture
def files(tmp_path: Path) -> dict:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.jsonl").write_text(rows(0, 20))
    (folder / "test.jsonl").write_text(rows(20, 5) + rows(25, 1, question="who is 3"))
    passages = [{"id": n, "title": str(n), "text": f"Number {n}."} for n in range(26)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(passage) + "\n" for passage in passages))
    return {
        "data_dir": "mine",
        "corpus": "corpus.jsonl",
        "sources": [file_source("train.jsonl", "train", licence="CC0-1.0"), file_source("test.jsonl", "test")],
    }


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_the_world_is_written_to_the_same_bytes(make_stage):
    stage = make_stage("ingest", ingest={"sources": [SMALL_WORLD]})
    figures = ingest.run(stage)
    assert figures["rows"] == {
        "train": {"world-comparison": 12, "world-one-hop": 30, "world-two-hop": 18},
        "validation": {"world-comparison": 2, "world-one-hop": 4, "world-two-hop": 2},
        "test": {"world-comparison": 4, "world-one-hop": 10, "world-two-hop": 6},
    }
    first = hashes(stage.out)
    assert set(first) == {"train.parquet", "validation.parquet", "test.parquet", "corpus.parquet", "manifest.json"}
    corpus = pd.read_parquet(stage.out / "corpus.parquet")
    assert figures["passages"] == len(corpus) == corpus["id"].nunique()
    assert stage.track.artifacts == ["manifest.json"]
    ingest.run(stage)
    assert hashes(stage.out) == first
    other = make_stage("ingest", seed=1, ingest={"sources": [SMALL_WORLD]})
    ingest.run(other)
    assert hashes(other.out)["train.parquet"] != first["train.parquet"]


def test_files_are_read_mixed_and_named_in_the_manifest(make_stage, files):
    stage = make_stage("ingest", ingest=files)
    figures = ingest.run(stage)
    # 20 - 1 that is in the test split too = 19, of which a tenth, 2, are held out.
    assert figures["rows"] == {"train": {"mine": 17}, "validation": {"mine": 2}, "test": {"mine": 6}}
    assert figures["dropped"] == {"train_in_held_out": 1}
    assert figures["hops"]["train"] == {"1": 17}
    train = pd.read_parquet(stage.out / "train.parquet")
    assert train["prompt"][0][0]["content"].startswith("Answer the question.")
    assert [info["index"] for info in train["extra_info"]] == list(range(17))
    manifest = json.loads((stage.out / "manifest.json").read_text())
    digest = hashlib.sha256(Path("mine/train.jsonl").read_bytes()).hexdigest()
    first = manifest["sources"][0]
    wanted = {
        "reader": "jsonl",
        "name": "mine",
        "split": "train",
        "path": "train.jsonl",
        "sha256": digest,
        "questions": 20,
    }
    assert wanted.items() <= first.items()
    assert (first["dropped"], first["licence"]) == ({}, "CC0-1.0")
    assert manifest["sources"][1]["licence"] == "unknown"
    assert manifest["corpus"]["passages"] == 26
    assert stage.track.data["mine/train"] == digest
    assert stage.track.data["corpus"] == manifest["corpus"]["sha256"]
    assert not (stage.out / "questions.arrow").exists()


def test_faulty_rows_are_refused_or_dropped_and_counted(make_stage, files, tmp_path):
    faulty = [
        {"id": "e1", "question": " ", "golden_answers": ["x"]},
        {"id": "e2", "question": "Why?", "golden_answers": []},
    ]
    with (tmp_path / "mine/train.jsonl").open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in faulty))
    with pytest.raises(InputError, match=r"train\.jsonl, line 21: question.*ingest.max_faulty, 0.091 or more"):
        ingest.run(make_stage("ingest", ingest=files))
    stage = make_stage("ingest", ingest={**files, "max_faulty": 0.1})
    assert ingest.run(stage)["dropped"] == {"empty_question": 1, "no_answer": 1, "train_in_held_out": 1}
    manifest = json.loads((stage.out / "manifest.json").read_text())
    assert manifest["sources"][0]["dropped"] == {"empty_question": 1, "no_answer": 1}
    # 3 of 28 rows are gone.
    with pytest.raises(InputError, match=r"3 of 28 rows are dropped: 1 .*ingest\.max_dropped"):
        ingest.run(make_stage("ingest", ingest={**files, "max_faulty": 0.1, "max_dropped": 0.1}))


def test_a_row_that_is_of_no_use_is_dropped_and_told(make_stage, files, tmp_path, capsys):
    with (tmp_path / "mine/train.jsonl").open("a") as file:
        file.write(json.dumps({"id": "e1", "question": "Which sign?", "golden_answers": ["*"]}) + "\n")
    assert ingest.run(make_stage("ingest", ingest=files))["dropped"] == {
        "unmatchable_answer": 1,
        "train_in_held_out": 1,
    }
    assert (
        "mine: 20 questions; dropped: 1 unmatchable_answer, first: mine/train.jsonl, line 21: "
        in capsys.readouterr().out
    )


def test_one_file_is_split_in_three(make_stage, files):
    sources = [file_source("train.jsonl", "train")]
    stage = make_stage("ingest", ingest={**files, "sources": sources, "test_share": 0.2, "validation_share": 0.25})
    # 20 questions: 4 for the test, a quarter of the 16 that are left for validation.
    assert ingest.run(stage)["rows"] == {"train": {"mine": 12}, "validation": {"mine": 4}, "test": {"mine": 4}}


def test_hotpotqa_brings_its_passages_where_there_is_no_corpus(make_stage, tmp_path):
    question = {"answer": "x", "supporting_facts": [["A", 0]], "context": [["A", ["One."]], ["B", ["Two."]]]}
    names = ("train", "validation", "test")
    for name in names:
        row = {"_id": name, "question": f"Which {name}?", **question}
        (tmp_path / f"{name}.json").write_text(json.dumps([row]))
    sources = [{"reader": "hotpotqa", "name": "hotpotqa", "path": f"{name}.json", "split": name} for name in names]
    stage = make_stage("ingest", ingest={"data_dir": ".", "sources": sources})
    assert ingest.run(stage)["passages"] == 2
    corpus = pd.read_parquet(stage.out / "corpus.parquet").set_index("title")
    gold = pd.read_parquet(stage.out / "test.parquet")["extra_info"][0]["gold_passage_ids"]
    assert list(gold) == [corpus.loc["A", "id"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sources": [file_source("train.jsonl", "train")], "test_share": 0.0}, "there is no test question"),
        ({"sources": [file_source("test.jsonl", "test")]}, "there is no train question"),
        ({"sources": [file_source("none.jsonl", "train")]}, r"mine/none\.jsonl: no such file"),
        ({"sources": [file_source("train.jsonl", "train"), file_source("train.jsonl", "test")]}, "'q0' comes twice"),
        ({"corpus": "none.jsonl"}, r"mine/none\.jsonl: no such file"),
        ({"corpus": None}, r"train\.jsonl, line 1: question 'q0': its gold passage '0' is not in the corpus"),
        ({"sources": [SMALL_WORLD, SMALL_WORLD], "corpus": None}, "'world-train-one-hop-0' comes twice"),
    ],
)
def test_wrong_input_is_refused(make_stage, files, change, message):
    with pytest.raises(InputError, match=message):
        ingest.run(make_stage("ingest", ingest={**files, **change}))
