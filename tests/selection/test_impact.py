"""LIMR's measure, by hand and by its properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tasks.selection.impact import chosen, control, impacts, ranked

shares = npst.arrays(float, npst.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.floats(0, 1))


def test_by_hand() -> None:
    # Means of the epochs .5, .75; the denominator is .25 + .0625 = .3125.
    found = impacts(np.array([[0.5, 0.75], [0.0, 1.0], [1.0, 0.5]]))
    # The first is the mean curve; then .25 + .0625 of .3125, and .25 + .0625 again.
    assert found == pytest.approx([1.0, 0.0, 0.0])


def test_a_question_that_never_comes_right_where_most_do_is_far_below_zero() -> None:
    found = impacts(np.array([[1.0, 1.0]] * 3 + [[0.0, 0.0]]))
    # Means .75: 1 - 2 (.25)^2 / (2 (.25)^2) = 0 for the three, 1 - 2 (.75)^2 / (2 (.25)^2) = -8 for the last.
    assert found == pytest.approx([0.0, 0.0, 0.0, -8.0])


def test_where_all_were_right_in_every_epoch_nothing_was_learnt() -> None:
    assert list(impacts(np.ones((3, 2)))) == [0.0, 0.0, 0.0]


def test_where_none_was_ever_right_all_follow_the_mean() -> None:
    assert list(impacts(np.zeros((3, 2)))) == [1.0, 1.0, 1.0]


@given(shares)
def test_at_most_one_and_a_number(given_shares: np.ndarray) -> None:
    found = impacts(given_shares)
    assert found.shape == (len(given_shares),)
    assert not np.isnan(found).any() and (found <= 1).all()


@given(shares, st.randoms(use_true_random=False))
def test_neither_the_order_of_the_questions_nor_of_the_epochs_matters(given_shares: np.ndarray, random) -> None:
    # Not so close to 1 that the denominator is the rounding of the mean alone.
    given_shares = given_shares * 0.9
    n, epochs = given_shares.shape
    rows, columns = random.sample(range(n), n), random.sample(range(epochs), epochs)
    moved = impacts(given_shares[np.ix_(rows, columns)])
    assert moved == pytest.approx(impacts(given_shares)[rows], abs=1e-9)


IDS = ["c", "a", "d", "b"]
VALUES = np.array([0.6, 0.6, 0.9, -1.0])


def test_taken_by_threshold_or_by_share_and_ties_go_by_id() -> None:
    assert [IDS[i] for i in ranked(IDS, VALUES)] == ["d", "a", "c", "b"]
    assert [IDS[i] for i in chosen(IDS, VALUES, theta=0.6, share=None)] == ["d", "a", "c"]
    assert [IDS[i] for i in chosen(IDS, VALUES, theta=0.61, share=None)] == ["d"]
    assert chosen(IDS, VALUES, theta=0.95, share=None) == []
    assert [IDS[i] for i in chosen(IDS, VALUES, theta=0.95, share=0.5)] == ["d", "a"]
    assert [IDS[i] for i in chosen(IDS, VALUES, theta=0.6, share=0.01)] == ["d"]


@given(st.sets(st.text(min_size=1), min_size=1, max_size=20), st.integers(0, 2**32 - 1), st.data())
def test_a_control_is_a_subset_of_the_size_whatever_the_order(names: set[str], seed: int, data) -> None:
    ids = sorted(names)
    count = data.draw(st.integers(0, len(ids)))
    other = data.draw(st.permutations(ids))
    drawn = [ids[i] for i in control(ids, count, seed)]
    assert len(set(drawn)) == count
    assert drawn == [other[i] for i in control(other, count, seed)]


def test_controls_of_different_seeds_differ() -> None:
    ids = [f"q{n:02d}" for n in range(40)]
    assert control(ids, 20, 0) != control(ids, 20, 1)
