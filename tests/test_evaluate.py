"""What stage `evaluate` asks beside the held-out questions."""

import json
from pathlib import Path

import pytest

from tasks import evaluate
from tasks.errors import InputError

ROW = {"question": "Which is a river?", "choices": ["Oka", "Paris"], "answer": 0}


def test_without_the_parameter_no_multiple_choice_is_asked(make_stage) -> None:
    assert evaluate._multiple_choice(make_stage("evaluate")) == []


def test_a_file_of_questions_lies_below_the_sources(make_stage) -> None:
    stage = make_stage("evaluate", evaluate={"ability": {"file": "mine/q.jsonl", "questions": 2}})
    with pytest.raises(InputError, match=r"^data/sources/mine/q\.jsonl: no such file"):
        evaluate._multiple_choice(stage)
    path = Path("data/sources/mine/q.jsonl")
    path.parent.mkdir(parents=True)
    path.write_text(f"{json.dumps(ROW)}\n" * 3)
    assert [one.choices for one in evaluate._multiple_choice(stage)] == [("Oka", "Paris")] * 2


@pytest.mark.parametrize("file", ["/etc/q.jsonl", "../q.jsonl"])
def test_a_file_of_questions_that_dvc_does_not_watch_is_refused(make_stage, file: str) -> None:
    stage = make_stage("evaluate", evaluate={"ability": {"file": file, "questions": 2}})
    with pytest.raises(
        InputError, match=r"^evaluate\.ability\.file: .*q\.jsonl does not lie below data/sources; put it"
    ):
        evaluate._multiple_choice(stage)


def test_generated_questions_are_about_names_that_the_corpus_does_not_have(make_stage, write_corpus) -> None:
    stage = make_stage("evaluate", evaluate={"ability": {"file": None, "questions": 40}})
    titles = ["Baba", "Bade"]
    write_corpus(Path("data/ingest/corpus.parquet"), [(name, name, "x", None) for name in titles])
    asked = evaluate._multiple_choice(stage)
    assert len(asked) == 40
    assert not any(name in text for one in asked for text in one.choices for name in titles)
