from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.sampling import pass_at_k


def test_by_hand() -> None:
    assert pass_at_k([True, False, False, False], 1) == pytest.approx(0.25)
    assert pass_at_k([True, False, False, False], 2) == pytest.approx(0.5)  # 3 of 6 pairs hold the right one
    assert pass_at_k([True, True, False, False], 2) == pytest.approx(5 / 6)
    assert pass_at_k([False] * 4, 4) == 0.0
    assert pass_at_k([True, False, False, False], 4) == 1.0


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_is_the_share_of_all_draws_with_a_success(successes: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(successes)))
    draws = [any(draw) for draw in combinations(successes, k)]
    assert pass_at_k(successes, k) == pytest.approx(sum(draws) / len(draws))


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="pass@4 needs at least 4 samples, got 3"):
        pass_at_k([True] * 3, 4)
