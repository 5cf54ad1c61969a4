import numpy as np
import pytest

from tasks.qa import table
from tasks.qa.records import Question


def ask(number: int) -> Question:
    return Question(
        f"q{number}", "s", f"Who is {number}?", (str(number),), 1, (), ("p",), f"file, line {number}", "test"
    )


@pytest.mark.parametrize("count", [0, 1, table.ROWS, table.ROWS + 3])
def test_questions_come_back_in_their_order(spooled, count):
    found = spooled(map(ask, range(count)))
    assert found.num_rows == count
    assert found["id"].to_pylist() == [f"q{n}" for n in range(count)]
    if count:
        last = found.slice(count - 1).to_pylist()[0]
        assert last["golden_answers"] == [str(count - 1)]
        assert (last["source"], last["split"], last["origin"]) == ("s", "test", f"file, line {count - 1}")
    assert table.keys(found).shape == (count, 2)


def test_keys_are_equal_where_normalised_questions_are(spooled):
    texts = ["Who is the 1?", "who is 1", "Who is 2?"]
    found = table.keys(spooled(Question(t, "s", t, ("a",), 1, (), (), "") for t in texts))
    assert (found[0] == found[1]).all()
    assert not (found[0] == found[2]).any()


def test_keys_of_a_part_of_the_table(spooled):
    whole = spooled(map(ask, range(table.ROWS + 5)))
    part = whole.slice(table.ROWS - 2, 4)
    assert (table.keys(part) == table.keys(whole)[table.ROWS - 2 : table.ROWS + 2]).all()


def test_rows_are_taken_in_the_order_that_is_asked_for(spooled):
    count = 2 * table.ROWS + 7
    whole = spooled(map(ask, range(count)))
    numbers = np.random.default_rng(0).permutation(count)
    parts = list(table.rows_of(whole, numbers))
    assert [part.num_rows for part in parts] == [table.ROWS, table.ROWS, 7]
    assert [one for part in parts for one in part["id"].to_pylist()] == [f"q{n}" for n in numbers]
    assert list(table.rows_of(whole, numbers[:0])) == []
