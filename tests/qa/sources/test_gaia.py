import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import ingest
from tasks.errors import InputError

ROW = {
    "task_id": "c61d22de-5f6c-4958-a7f6-5e9707bd3466",
    "Question": "A paper about AI regulation was submitted to arXiv. Which words stand at its axes?",
    "Level": 2,
    "Final answer": "egalitarian, 17",
    "file_name": "",
    "Annotator Metadata": {"Steps": "1. Look it up.", "Number of steps": "12", "Tools": "1. Web browser"},
}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("level", [2, "2"])
def test_a_row_becomes_a_question_with_its_level_and_its_scorer(tmp_path, read, level):
    write(tmp_path / "metadata.jsonl", [{**ROW, "Level": level}])
    found = read("gaia", "metadata.jsonl").question
    assert (found.id, found.data_source, found.question) == (ROW["task_id"], "mine", ROW["Question"])
    assert (found.golden_answers, found.type, found.scorer, found.hops) == (("egalitarian, 17",), "level-2", "gaia", 1)
    assert (found.supporting_titles, found.gold_passage_ids) == ((), ())


def test_the_hubs_columns_are_read(tmp_path, read):
    pq.write_table(pa.Table.from_pylist([{**ROW, "Level": "3", "file_path": ""}]), tmp_path / "q.parquet")
    assert read("gaia", "q.parquet").question.type == "level-3"


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"file_name": "a.xlsx"}, "attached_file", "file_name: a.xlsx would have to be read, which the agent can't do"),
        ({"Final answer": "?"}, "unmatchable_answer", "Final answer: nothing is left of '?'"),
        (
            {"Final answer": 17},
            "wrong_type",
            'Final answer: must be a text, got the number 17; write it as a text: "17"',
        ),
        ({"Level": 4}, "wrong_level", "Level: must be 1, 2 or 3, got '4'"),
        ({"Level": None}, "wrong_level", "Level: must be 1, 2 or 3, got 'None'"),
        ({"Question": " "}, "empty_question", "Question: is empty"),
        ({"file_name": 3}, "wrong_type", "file_name: must be a text, got the number 3"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path, read, change, reason, message):
    write(tmp_path / "q.jsonl", [{**ROW, **change}])
    fault = read("gaia", "q.jsonl").fault
    assert fault.message.startswith(message)
    assert (fault.reason, fault.origin) == (reason, f"{tmp_path}/q.jsonl, line 1")


def test_ingest_counts_questions_with_files_and_writes_the_scorer(make_stage, tmp_path):
    import pandas as pd

    files = [{**ROW, "task_id": f"f{n}", "Question": f"What is in file {n}?", "file_name": f"{n}.png"} for n in "ab"]
    asked = [
        {**ROW, "task_id": f"q{n}", "Question": f"Who was number {n * 111}?", "Final answer": f"{n}"}
        for n in range(1, 9)
    ]
    write(tmp_path / "metadata.jsonl", asked + files)
    train = [
        {"id": f"t{n}", "question": f"Which is town {n * 1001}?", "golden_answers": [f"Oka {n}"]} for n in range(20)
    ]
    write(tmp_path / "train.jsonl", [{**train[0], "type": "bridge"}, *train[1:]])
    sources = [
        {"reader": "gaia", "name": "gaia", "path": "metadata.jsonl", "split": "test"},
        {"reader": "jsonl", "name": "mine", "path": "train.jsonl", "split": "train"},
    ]
    stage = make_stage("ingest", ingest={"data_dir": str(tmp_path), "sources": sources})
    figures = ingest.run(stage)
    assert figures["dropped"] == {"attached_file": 2}
    parts = [pd.read_parquet(stage.out / f"{split}.parquet") for split in ("train", "validation", "test")]
    rows = pd.concat(parts).to_dict("records")
    kinds = [
        (row["data_source"], row["reward_model"]["ground_truth"]["scorer"], row["extra_info"]["type"]) for row in rows
    ]
    assert Counter(kinds) == {
        ("gaia", "gaia", "level-2"): 8,
        ("mine", "squad", None): 19,
        ("mine", "squad", "bridge"): 1,
    }


def test_the_test_part_is_refused_as_having_no_answers(make_stage, tmp_path):
    write(tmp_path / "metadata.jsonl", [{**ROW, "Final answer": "?"}])
    sources = [{"reader": "gaia", "name": "gaia", "path": "metadata.jsonl", "split": "test"}]
    with pytest.raises(InputError, match="are dropped: 1 unmatchable_answer"):
        ingest.run(make_stage("ingest", ingest={"data_dir": str(tmp_path), "sources": sources}))
