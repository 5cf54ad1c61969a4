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


@pytest.fixture
def made(make_stage):
    """A stage `evaluate` with all models; `enabled` is of stage rft."""

    def make(enabled: bool, **settings):
        stage = make_stage("evaluate", evaluate=settings)
        for folder in ("policy/model", "sft/model", "merge/model", "rft/model"):
            Path("data", folder).mkdir(parents=True, exist_ok=True)
        Path("data/rft/figures.json").write_text(json.dumps({"enabled": enabled, "n": 0}))
        return stage

    return make


def test_the_fine_tuned_model_plays_last_where_it_was_made(made) -> None:
    assert [model.name for model in evaluate._models(made(False))] == ["base", "sft", "rl"]
    models = evaluate._models(made(True))
    assert [model.name for model in models] == ["base", "sft", "rl", "rft"]
    assert models[-1].folder == Path("data/rft/model").absolute()


def test_a_champion_comes_before_the_candidate(made) -> None:
    stage = made(True, champion="old")
    Path("old").mkdir()
    Path("old/config.json").write_text(json.dumps({"dtype": "float32"}))
    for name in ("tokenizer_config.json", "model.safetensors"):
        Path("old", name).write_bytes(b"{}")
    assert [model.name for model in evaluate._models(stage)] == ["base", "sft", "rl", "champion", "rft"]


def test_generated_questions_are_about_names_that_the_corpus_does_not_have(make_stage, write_corpus) -> None:
    stage = make_stage("evaluate", evaluate={"ability": {"file": None, "questions": 40}})
    titles = ["Baba", "Bade"]
    write_corpus(Path("data/ingest/corpus.parquet"), [(name, name, "x", None) for name in titles])
    asked = evaluate._multiple_choice(stage)
    assert len(asked) == 40
    assert not any(name in text for one in asked for text in one.choices for name in titles)
