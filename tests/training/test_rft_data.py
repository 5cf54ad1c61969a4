"""Which trajectories of a rollout log are trained on."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.training.rft_data import choose, successful

GOOD = {"success": 1.0, "format_valid": True, "stop_reason": "answer", "copied_example": False}


def row(question: str, ids: list[int], step: int = 1, sample: int = 0, **changed) -> dict:
    tokens = {"prompt_ids": [1, 2], "response_ids": ids, "response_mask": [1] * len(ids)}
    return {"question_id": question, "step": step, "sample": sample, **GOOD, **tokens, **changed}


def write(folder: Path, name: str, rows: list[dict]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")


def test_only_what_was_right_in_form_and_answered_is_taken_of_all_training_steps(tmp_path) -> None:
    write(
        tmp_path,
        "train_00001",
        [
            row("good", [3]),
            row("wrong", [3], success=0.0),
            row("half", [3], success=0.5),
            row("formless", [3], format_valid=False),
            row("cut", [3], stop_reason="length"),
            row("copied", [3], copied_example=True),
        ],
    )
    write(tmp_path, "train_00002", [row("later", [4], step=2)])
    write(tmp_path, "validation_00002", [row("validation", [5])])
    found = successful(tmp_path)
    assert list(found["question_id"]) == ["good", "later"]
    assert list(found.columns) == ["question_id", "step", "sample", "prompt_ids", "response_ids", "response_mask"]


def test_the_same_tokens_are_taken_once_a_question() -> None:
    frame = pd.DataFrame([row("a", [3, 4], sample=n) for n in range(3)] + [row("a", [5]), row("b", [3, 4])])
    found = choose(frame, per_question=9, held_back=1, seed=0)
    taken = pd.concat([found.train, found.validation])
    assert sorted(
        (name, tuple(ids)) for name, ids in zip(taken["question_id"], taken["response_ids"], strict=True)
    ) == [
        ("a", (3, 4)),
        ("a", (5,)),
        ("b", (3, 4)),
    ]
    assert (found.successful, found.distinct) == (5, 3)


logs = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5)), min_size=1, max_size=40)


@given(logs, st.integers(1, 4), st.integers(1, 12), st.integers(0, 9), st.randoms(use_true_random=False))
def test_no_question_is_trained_on_and_held_back_nor_more_often_than_asked(
    log, per_question: int, held_back: int, seed: int, random
) -> None:
    rows = [row(name, [token], sample=n) for n, (name, token) in enumerate(log)]
    found = choose(pd.DataFrame(rows), per_question=per_question, held_back=held_back, seed=seed)
    train, validation = (Counter(part["question_id"]) for part in (found.train, found.validation))
    assert not set(train) & set(validation)
    available = {name: len({token for other, token in log if other == name}) for name in {name for name, _ in log}}
    wanted = {name: min(count, per_question) for name, count in available.items()}
    assert train + validation == Counter(wanted)
    # As many are held back as asked for, as far as there are so many, and not a question more.
    assert len(found.validation) >= min(held_back, sum(wanted.values()))
    assert len(found.validation) < held_back + per_question
    shuffled = random.sample(rows, len(rows))
    again = choose(pd.DataFrame(shuffled), per_question=per_question, held_back=held_back, seed=seed)
    pd.testing.assert_frame_equal(again.train, found.train)
    pd.testing.assert_frame_equal(again.validation, found.validation)


@pytest.mark.parametrize("part", ["train", "validation"])
def test_the_seed_decides_which_are_drawn(part: str) -> None:
    frame = pd.DataFrame([row(f"q{n}", [token]) for n in range(20) for token in range(8)])
    drawn = [
        getattr(choose(frame, per_question=2, held_back=10, seed=seed), part)["response_ids"].tolist()
        for seed in (0, 1)
    ]
    assert drawn[0] != drawn[1]
