from collections import Counter
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.demonstrations import drawing
from tasks.agent.demonstrations.drawing import Questions, Ration
from tasks.errors import InputError
from tasks.qa.comparing import question_key


@pytest.fixture
def rows_file(tmp_path: Path, question_row):
    def write(questions: list[tuple[str, int]], row_group_size: int = 3) -> Path:
        rows = [question_row(text, ["x"], ["t"] * hops, [], id=f"q{n}") for n, (text, hops) in enumerate(questions)]
        path = tmp_path / "train.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)
        return path

    return write


def questions_of(hops: list[int]) -> Questions:
    """Questions 0, 1, ... in a file that is never read."""
    numbers = np.arange(len(hops))
    return Questions(
        Path("none"), numbers, numbers, np.array(hops, np.int64), {question_key(str(n)): n for n in range(len(hops))}
    )


def ids(rows) -> list[str]:
    return [row["extra_info"]["id"] for row in rows]


def test_rows_that_ask_the_same_are_one_question(rows_file) -> None:
    questions = Questions.read(rows_file([("Who is Ada?", 1), ("Where?", 2), ("“who is áda”", 3), ("When?", 2)]))
    assert questions.of_row.tolist() == [0, 1, 0, 2] and questions.first_row.tolist() == [0, 1, 3]
    assert questions.hops.tolist() == [1, 2, 2]


def test_rows_come_in_the_order_of_their_numbers(rows_file) -> None:
    questions = Questions.read(rows_file([(f"Question {n}", 1) for n in range(10)]))
    taken = questions.take(np.array([7, 0, 9, 3]))
    assert ids(taken) == ["q7", "q0", "q9", "q3"]
    assert set(taken[0]) == {"data_source", "prompt", "extra_info"}


def test_the_draw_is_reproducible_and_the_seed_decides_it() -> None:
    questions = questions_of([1, 2] * 50)
    drawn = [questions.order({2: 3.0}, seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[0]) == list(range(100))


def test_long_chains_are_drawn_by_their_weight() -> None:
    # The first of a draw is of weight 4 with probability 4 * 10 / (4 * 10 + 90) = 0.308; 2,000 draws: sd 0.0103.
    questions = questions_of([1] * 90 + [4] * 10)
    first = Counter(int(questions.hops[questions.order({4: 4.0}, seed)[0]]) for seed in range(2000))
    assert first[4] / 2000 == pytest.approx(4 / 13, abs=0.05)
    plain = Counter(int(questions.hops[questions.order({}, seed)[0]]) for seed in range(2000))
    assert plain[4] / 2000 == pytest.approx(0.1, abs=0.035)


def test_a_weight_for_hops_that_no_question_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"demos\.hop_weights: no training question has 3 hops; there are: 1, 2"):
        questions_of([1, 2]).order({2: 2.0, 3: 2.0}, 0)


@given(st.lists(st.integers(1, 4), max_size=60), st.sampled_from([0.0, 0.07, 0.1, 0.5, 0.9, 0.999, 1.0]))
def test_a_share_of_every_number_of_hops_stays_for_rl(hops: list[int], share: float) -> None:
    ration = Ration(questions_of(hops), share)
    used: Counter[int] = Counter()
    for number, of in enumerate(hops):
        try:
            assert ration.use(str(number), "here") == of
            used[of] += 1
        except InputError:
            assert used[of] == len([h for h in hops if h == of]) - ceil(round(share * hops.count(of), 9))
    for of, count in Counter(hops).items():
        assert count - used[of] >= share * count - 1e-9
    assert len(ration.used) == used.total()


def test_more_than_the_ration_is_refused_with_the_place() -> None:
    ration = Ration(questions_of([2, 2, 2, 1]), 0.5)
    assert (ration.use("0", "a"), ration.use("nobody asks", "b")) == (2, None)
    with pytest.raises(
        InputError, match=r"^own\.jsonl, line 7: .*rl_share 0\.5 lets 1 of the 3 training questions of 2 hops"
    ):
        ration.use("1", "own.jsonl, line 7")


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_skip_what_is_used_or_over_the_ration(rows_file, monkeypatch, at_once: int) -> None:
    monkeypatch.setattr(drawing, "_AT_ONCE", at_once)
    questions = Questions.read(rows_file([(f"Question {n}", 1 + n % 2) for n in range(8)]))  # odd numbers: 2 hops
    ration = Ration(questions, 0.5)  # two of each
    ration.use("question 3", "own")
    taken = []
    for row in ration.rows(np.array([5, 3, 1, 0, 2, 7, 4, 6])):
        taken.append(row["extra_info"]["id"])
        if row["extra_info"]["id"] != "q0":  # none could be made of this one
            ration.use(row["extra_info"]["question"], "made")
    assert taken == ["q5", "q0", "q2", "q4"]
    assert ration.used == {3, 5, 2, 4}


def test_what_is_left_keeps_order_and_columns(rows_file, tmp_path: Path) -> None:
    path = rows_file([("E?", 1), ("B?", 2), ("e", 1), ("C?", 2), ("D?", 2)])
    left = Questions.read(path).write_left({0, 2}, tmp_path / "left.parquet")
    assert left == {2: 2}
    written = pq.read_table(tmp_path / "left.parquet")
    assert ids(written.to_pylist()) == ["q1", "q4"] and written.schema.equals(pq.read_schema(path))
    assert not Questions.read(path).write_left({0, 1, 2, 3}, tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0
