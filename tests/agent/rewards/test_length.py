import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards.length import length_score, soft_overlong

LIMITS = st.integers(1, 300).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most)))


@pytest.mark.parametrize(
    ("tokens", "value"),
    # The paper's own limits: 16,384 expected tokens, a cache of 4,096, so at most 20,480.
    [
        (0, 0.0),
        (16384, 0.0),
        (16385, -1 / 4096),
        (17408, -0.25),
        (18432, -0.5),
        (20480, -1.0),
        (20481, -1.0),
        (9**9, -1.0),
    ],
)
def test_dapos_equation_13_at_the_papers_limits(tokens: int, value: float) -> None:
    assert soft_overlong(tokens, 20480, 4096) == value
    assert length_score(tokens, 20480, 4096) == 1.0 + value


def test_every_branch_is_reached_in_the_order_of_the_limits() -> None:
    # A published penalty tests `> 4000` before `> 8000`, so what is longer than 8000 is punished as 4001 is.
    assert [soft_overlong(tokens, 8000, 4000) for tokens in (4000, 4001, 6000, 8001)] == [0.0, -1 / 4000, -0.5, -1.0]


def test_a_cache_as_wide_as_the_limit_punishes_from_the_first_token() -> None:
    assert [soft_overlong(tokens, 4, 4) for tokens in range(6)] == [0.0, -0.25, -0.5, -0.75, -1.0, -1.0]


@given(LIMITS, st.integers(0, 400))
def test_soft_overlong_is_bounded_falls_and_has_no_jump(limits: tuple[int, int], tokens: int) -> None:
    here, after = (soft_overlong(n, *limits) for n in (tokens, tokens + 1))
    assert -1.0 <= after <= here <= 0.0
    assert here - after <= 1 / limits[1] + 1e-12
    assert 0.0 <= length_score(tokens, *limits) <= 1.0
