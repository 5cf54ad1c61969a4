import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import demos
from tasks.agent.environments.search.environment import Environment
from tasks.agent.protocol import SearchR1
from tasks.errors import InputError
from tasks.retrieval.build import build
from tasks.training.tokenizer import train_tokenizer

PEOPLE = 20
PASSAGES = [(f"p{n}", f"Person{n}", f"Person{n} was born in Town{n}.", None) for n in range(PEOPLE)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, write_corpus) -> Path:
    """An index and a tokenizer, built once."""
    from tasks.params import Index

    folder = tmp_path_factory.mktemp("shared")
    settings = {"bm25": {"k1": 1.2, "b": 0.75}, "faiss": {"dimensions": 32, "ngrams": [3, 3]}, "recall_questions": 1}
    (folder / "index").mkdir()
    corpus = write_corpus(folder / "corpus.parquet", PASSAGES)
    build(corpus, folder / "index", Index.model_validate(settings), lambda line: None)
    texts = [f"{title} {text}" for _, title, text, _ in PASSAGES]
    train_tokenizer(texts, 400, SearchR1().tokens).save_pretrained(folder / "policy" / "model")
    return folder


@pytest.fixture
def stage(make_stage, question_row, shared: Path):
    def make(questions: int, validation: int, rows: list[dict] | None = None, give_up: float = 0.0, **top):
        wanted = {"questions": questions, "validation": validation, "give_up": give_up}
        made = make_stage("demos", demos=wanted, sft={"batch_size": 1}, **top)
        if rows is None:
            rows = [
                question_row(f"Where was Person{n} born?", [f"Town{n}"], [f"Person{n}"], [f"p{n}"], id=f"q{n}")
                for n in range(PEOPLE)
            ]
        Path("data/ingest").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), "data/ingest/train.parquet")
        for name in ("index", "policy"):
            if not Path("data", name).exists():
                Path("data", name).symlink_to(shared / name)
        return made

    return make


def read(stage, name: str) -> list[dict]:
    return pq.read_table(stage.out / f"{name}.parquet").to_pylist()


def test_questions_are_split_between_demonstrations_and_rl(stage) -> None:
    made = stage(6, 2)
    figures = demos.run(made)
    train, validation, left = (read(made, name) for name in ("train", "validation", "rl_train"))
    assert (
        (figures["n"], figures["validation"], figures["rl_rows"])
        == (6, 2, 12)
        == tuple(map(len, (train, validation, left)))
    )
    used, kept = {row["id"] for row in train + validation}, [row["extra_info"]["id"] for row in left]
    assert len(used) == 8 and not used.intersection(kept)
    rows = pq.read_table("data/ingest/train.parquet")
    assert kept == [key for key in (f"q{n}" for n in range(PEOPLE)) if key not in used]
    assert pq.read_schema(made.out / "rl_train.parquet").equals(rows.schema)
    assert figures["by_source"] == {"made": 8} and figures["mean_searches"] == 1.0
    assert figures["answer_in_context"] == 1.0 and figures["dropped"] == {} and figures["yes_no"] == 0
    assert json.dumps(figures, allow_nan=False)


def test_a_row_has_the_form_of_the_contract(stage) -> None:
    made = stage(1, 1)
    demos.run(made)
    row = read(made, "train")[0]
    assert set(row) == {
        "id", "data_source", "prompt", "messages", "chosen", "question", "golden_answers", "found_answer_context",
        "gave_up", "segments",
    }  # fmt: skip
    assert row["messages"] == [*row["prompt"], {"role": "assistant", "content": row["chosen"]}]
    assert row["chosen"] == "".join(segment["text"] for segment in row["segments"])
    assert row["chosen"].endswith(f"<answer> {row['golden_answers'][0]} </answer>")


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 0, 0), (0.5, 1, 9), (1.0, 10, 10)])
def test_the_share_that_gives_up_is_drawn_by_question(stage, question_row, share, least, most) -> None:
    rows = [
        question_row(f"Same town {n}?", ["no"], [f"Person{n}", f"Person{n - 1}"], [f"p{n}", f"p{n - 1}"], id=f"q{n}")
        for n in range(1, PEOPLE)
    ]
    made = stage(7, 3, [*rows, *rows[:1]], give_up=share)
    figures = demos.run(made)
    assert least <= figures["gave_up"] <= most and figures["yes_no"] == 10 - figures["gave_up"]
    written = read(made, "train") + read(made, "validation")
    assert sum(row["gave_up"] for row in written) == figures["gave_up"]
    assert figures["mean_searches"] == (20 - figures["gave_up"]) / 10
    assert {row["chosen"].count("<search>") for row in written if row["gave_up"]} <= {1}


def test_half_the_rows_stay_for_rl(stage, capsys: pytest.CaptureFixture[str]) -> None:
    figures = demos.run(stage(100, 10))
    assert (figures["n"], figures["validation"], figures["rl_rows"]) == (5, 5, 10)
    assert "10 demonstrations instead of 110" in capsys.readouterr().out


def test_the_seed_decides_which_questions(stage) -> None:
    drawn = []
    for seed in (1, 1, 2):
        made = stage(4, 1, seed=seed)
        demos.run(made)
        drawn.append([row["id"] for row in read(made, "train")])
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_repeated_question_never_comes_back_in_rl(stage, question_row) -> None:
    rows = [
        question_row(
            f"Where was Person{n // 2} born?", [f"Town{n // 2}"], [f"Person{n // 2}"], [f"p{n // 2}"], id=f"q{n}"
        )
        for n in range(12)
    ]
    made = stage(2, 1, rows)
    demos.run(made)
    shown = {row["question"] for name in ("train", "validation") for row in read(made, name)}
    left = [row["extra_info"]["question"] for row in read(made, "rl_train")]
    assert len(shown) == 3 and not shown.intersection(left) and len(left) == 6


def test_no_demonstrations_is_wrong_input(stage, question_row) -> None:
    rows = [question_row(f"q{n}", ["x"], ["Nobody"], [f"p{n}"]) for n in range(8)]
    with pytest.raises(InputError, match=r"0 demonstrations from 8 training rows.*8 gold_passage_not_found"):
        demos.run(stage(2, 1, rows))


def test_an_environment_that_searches_nothing_keeps_all_rows(stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "needs_retrieval", False)
    made = stage(2, 1)
    figures = demos.run(made)
    assert figures["n"] == 0 and figures["rl_rows"] == PEOPLE
    assert pq.read_table(made.out / "rl_train.parquet").equals(pq.read_table("data/ingest/train.parquet"))
