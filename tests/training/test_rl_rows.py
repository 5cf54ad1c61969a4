import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.training.rl_rows import write_training_rows, write_validation_rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, question_row) -> Path:
    """Five rows, of the questions q0 to q4."""
    made = [question_row(f"Q{n}?", ["a"], ["t"], ["p"], id=f"q{n}") for n in range(5)]
    for row in made:
        del row["extra_info"]["tools_kwargs"]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pd.DataFrame(made).to_parquet(path)
    return path


def ids(path: Path) -> list[str]:
    return [info["id"] for info in pd.read_parquet(path)["extra_info"]]


def test_validation_rows_are_the_first_ones_numbered_anew(rows: Path, tmp_path: Path) -> None:
    assert write_validation_rows(rows, tmp_path / "v.parquet", 3) == 3
    infos = pd.read_parquet(tmp_path / "v.parquet")["extra_info"]
    assert [(info["id"], info["index"], info["split"]) for info in infos] == [
        ("q0", 0, "validation"),
        ("q1", 1, "validation"),
        ("q2", 2, "validation"),
    ]
    assert list(infos[0]["golden_answers"]) == ["a"]
    assert write_validation_rows(rows, tmp_path / "v.parquet", 99) == 5


@given(named=st.lists(st.sampled_from([f"q{n}" for n in range(5)]), min_size=1, max_size=8))
def test_training_rows_are_those_that_are_named_in_their_own_order(rows: Path, tmp_path_factory, named) -> None:
    folder = tmp_path_factory.mktemp("chosen")
    (folder / "names.jsonl").write_text("".join(json.dumps({"id": one, "impact": 0.7}) + "\n" for one in named))
    target = write_training_rows(rows, folder / "names.jsonl", folder / "train.parquet", 1)
    assert ids(target) == sorted(set(named))
    whole = pd.read_parquet(rows)
    assert pd.read_parquet(target).columns.tolist() == whole.columns.tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["no such file", "tasks.select"]),
        ("", ["names no question"]),
        ('{"id": "q1"}\n{"id": "q9"}\n{"id": "q8"}\n', ["2 of 3 questions", "'q8'"]),
        ('{"id": "q1"}\n', ["1 questions do not make a step of rl.prompts: 2"]),
        ('{"id": "q1"}\n{"name": "q2"}\n', ["names.jsonl, line 2", '{"id": ...}']),
        ('{"id": "q1"}\n[1]\n', ["names.jsonl, line 2"]),
        ('{"id": "q1"}\nq2\n', ["names.jsonl, line 2"]),
        (b'{"id": "q1"}\n\xff\n', ["names.jsonl, line 2"]),
    ],
)
def test_a_file_that_names_no_training_set_is_refused(rows: Path, tmp_path: Path, text, words) -> None:
    names = tmp_path / "names.jsonl"
    if text is not None:
        names.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        write_training_rows(rows, names, tmp_path / "train.parquet", 2)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not (tmp_path / "train.parquet").exists()
