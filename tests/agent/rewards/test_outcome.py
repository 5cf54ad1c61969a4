import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards.outcome import format_score, per_answer, three_part

SCORES = st.floats(0, 1)


@pytest.mark.parametrize(("score", "blocks", "value"), [(1.0, 0, 0.0), (1.0, 1, 1.0), (1.0, 2, 0.5), (0.1, 4, 0.025)])
def test_division_by_the_number_of_answers(score: float, blocks: int, value: float) -> None:
    assert per_answer(score, blocks) == value


@given(SCORES, st.integers(1, 99))
def test_one_more_answer_never_pays(score: float, blocks: int) -> None:
    assert 0.0 <= per_answer(score, blocks + 1) <= per_answer(score, blocks) <= score


@pytest.mark.parametrize(
    ("score", "step", "decay_steps", "value"),
    [
        (0.0, None, None, 1.0),
        (1.0, None, None, 0.0),
        (0.75, 500, None, 0.25),  # constant
        (0.0, 1, 10, 0.9),
        (0.0, 5, 10, 0.5),
        (0.0, 10, 10, 0.0),
        (0.0, 11, 10, 0.0),
        (0.5, 5, 10, 0.25),
        (0.0, None, 10, 1.0),  # outside of training nothing decays
    ],
)
def test_format_score_by_hand(score: float, step: int | None, decay_steps: int | None, value: float) -> None:
    assert format_score(score, step, decay_steps) == pytest.approx(value)


@given(SCORES, st.integers(1, 50), st.integers(1, 50))
def test_format_score_falls_over_the_steps_and_with_the_score(score: float, step: int, decay_steps: int) -> None:
    here = format_score(score, step, decay_steps)
    assert 0.0 <= format_score(score, step + 1, decay_steps) <= here <= 1.0
    assert format_score(1.0, step, decay_steps) == 0.0


@pytest.mark.parametrize(
    ("em", "in_form", "tokens", "parts"),
    [
        (1.0, True, 60, (0.7, 0.1, 0.2)),
        (1.0, True, 80, (0.7, 0.1, 0.1)),  # in the middle of the slope from 60 to 100
        (1.0, True, 100, (0.7, 0.1, 0.0)),
        (1.0, False, 60, (0.7, 0.0, 0.2)),
        (0.0, True, 1, (0.0, 0.1, 0.0)),  # short and wrong earns nothing for being short
        (0.0, False, 1, (0.0, 0.0, 0.0)),
    ],
)
def test_three_part_by_hand(em: float, in_form: bool, tokens: int, parts: tuple[float, float, float]) -> None:
    found = three_part(em, in_form, tokens, max_tokens=100, cache_tokens=40)
    assert (found.correct, found.format, found.length) == pytest.approx(parts)
