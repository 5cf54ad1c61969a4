import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.demonstrations import chosen
from tasks.errors import InputError


def ids(path: Path) -> list[str]:
    return [info["id"] for info in pd.read_parquet(path)["extra_info"]]


@given(named=st.lists(st.sampled_from([f"q{n}" for n in range(5)]), min_size=1, max_size=8))
def test_rows_are_those_that_are_named_in_their_own_order(five_rows: Path, tmp_path_factory, named) -> None:
    folder = tmp_path_factory.mktemp("chosen")
    (folder / "names.jsonl").write_text("".join(json.dumps({"id": one, "impact": 0.7}) + "\n" for one in named))
    target = folder / "train.parquet"
    assert chosen.write(five_rows, chosen.read_ids(folder, "names.jsonl"), target) == len(set(named))
    assert ids(target) == sorted(set(named))
    assert pd.read_parquet(target).columns.tolist() == pd.read_parquet(five_rows).columns.tolist()


def test_without_a_file_all_rows_are_written(five_rows: Path, tmp_path: Path) -> None:
    assert chosen.write(five_rows, None, tmp_path / "train.parquet") == 5
    assert (tmp_path / "train.parquet").read_bytes() == five_rows.read_bytes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["no such file", "tasks.select"]),
        ("", ["names no question"]),
        ('{"id": "q1"}\n{"name": "q2"}\n', ["names.jsonl, line 2", '{"id": ...}']),
        ('{"id": "q1"}\n[1]\n', ["names.jsonl, line 2"]),
        ('{"id": "q1"}\nq2\n', ["names.jsonl, line 2"]),
        (b'{"id": "q1"}\n\xff\n', ["names.jsonl, line 2"]),
    ],
)
def test_a_file_that_names_no_questions_is_refused(tmp_path: Path, text, words) -> None:
    if text is not None:
        (tmp_path / "names.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        chosen.read_ids(tmp_path, "names.jsonl")
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("name", ["/etc/hosts", "../secret.jsonl"])
def test_the_file_lies_where_dvc_sees_it_change(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"demos.rl_questions: .* does not lie below|does not lie below"):
        chosen.read_ids(tmp_path, name)


def test_questions_of_another_run_are_refused(five_rows: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 of 3 questions are none of RL's, such as 'q8'"):
        chosen.write(five_rows, {"q1", "q9", "q8"}, tmp_path / "train.parquet")
    assert not (tmp_path / "train.parquet").exists()
