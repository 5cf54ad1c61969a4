"""Whole rewards: parameters and a finished trajectory in, weighted parts out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards import REWARDS, RewardParams, exact_match, reward_parts
from tasks.agent.trajectory import Segment, Trajectory

DEFAULT = {"em": {"weight": 1.0}, "format": {"weight": 0.1}}
LIMITS = {"max_tokens": 10, "cache_tokens": 4}
EVERY: dict[str, dict[str, Any]] = {
    "em": {"weight": 1.0},
    "f1": {"weight": 0.5},
    "cover_em": {"weight": 0.25},
    "format": {"weight": 0.1, "decay_steps": 10},
    "three_part": {"weight": 1.0, **LIMITS},
    "citation_precision": {"weight": 0.2},
    "soft_overlong": {"weight": 0.5, **LIMITS},
    "steps": {"weight": 0.01, "growth": "quadratic"},
    "repeated_queries": {"weight": 0.1, "threshold": 0.7},
}


def played(answer: str | None, blocks: int = 1, tokens: int = 0, shown: int = 0, **more: Any) -> Trajectory:
    segments = [Segment("generated", "", [1] * tokens), Segment("observation", "a b c " * shown, [1] * shown)]
    given = {"answer": answer, "answer_blocks": blocks if answer is not None else 0, "segments": segments}
    return Trajectory("q", "search", "made", "Who?", ["Big Town"], 1, [1], **given, **more)


def parts(reward: dict[str, Any], trajectory: Trajectory) -> dict[str, float]:
    return reward_parts(RewardParams.model_validate(reward), trajectory, ["Big Town"])


@pytest.mark.parametrize(
    ("answer", "blocks", "expected"),
    [
        (None, 0, (0.0, 0.0)),
        ("the big town", 1, (1.0, 0.0)),
        ("village", 1, (0.0, 0.1)),
        ("big", 1, (0.0, 0.1)),
        ("Big Town", 2, (0.5, 0.0)),
        ("village", 4, (0.0, 0.025)),
    ],
)
def test_the_default_is_the_outcome_alone(answer: str | None, blocks: int, expected: tuple[float, float]) -> None:
    assert parts(DEFAULT, played(answer, blocks, tokens=999, turns=9, step=9)) == {
        "em": expected[0],
        "format": expected[1],
    }


@given(st.sampled_from(["Big Town", "village", ""]), st.integers(1, 9), st.floats(0.01, 9), st.floats(0, 9))
def test_em_and_format_are_search_r1s_score_over_the_answers(answer: str, blocks: int, em: float, form: float) -> None:
    right = exact_match(answer, ["Big Town"])
    found = parts({"em": {"weight": em}, "format": {"weight": form}}, played(answer, blocks))
    assert found == {"em": em * right / blocks, "format": form * (1.0 - right) / blocks}


def test_every_part_is_logged_by_itself() -> None:
    trajectory = played(
        "big",
        blocks=2,
        tokens=8,
        shown=500,
        turns=3,
        step=4,
        queries=["big town", "Big Town?"],
        citation_precision=0.5,
        format_valid=False,
    )
    assert parts(EVERY, trajectory) == pytest.approx(
        {
            "em": 0.0,
            "f1": 0.5 * (2 / 3) / 2,
            "cover_em": 0.0,
            "format": 0.1 * (1 - 2 / 3) * (1 - 4 / 10) / 2,
            "three_part_correct": 0.0,
            "three_part_format": 0.0,
            "three_part_length": 0.0,
            "citation_precision": 0.2 * 0.5 / 2,
            "soft_overlong": 0.5 * (6 - 8) / 4,  # the 500 tokens that it was shown do not count
            "steps": 0.01 * -9,
            "repeated_queries": 0.1 * -1,
        }
    )


def test_three_part_logs_its_three_parts() -> None:
    # 8 tokens are halfway down the slope from 6 to 10.
    found = parts({"three_part": {"weight": 2.0, **LIMITS}}, played("big town", tokens=8, format_valid=True))
    assert found == pytest.approx({"three_part_correct": 1.4, "three_part_format": 0.2, "three_part_length": 0.2})


def test_the_same_names_whatever_happened() -> None:
    assert parts(EVERY, played(None)).keys() == parts(EVERY, played("Big Town", tokens=99, step=1)).keys()


def test_tokens_are_counted_and_not_words() -> None:
    # One word of many tokens: a published penalty splits the text at spaces and would see 1.
    trajectory = played("big town")
    trajectory.segments = [Segment("generated", "Donaudampfschiff", [1] * 20)]
    assert parts({**DEFAULT, "soft_overlong": {"weight": 1.0, **LIMITS}}, trajectory)["soft_overlong"] == -1.0


@pytest.mark.parametrize(("answer", "right"), [("big town hall", 1.0), ("big", 0.0)])
def test_the_format_is_paid_as_far_as_the_paid_score_is_not(answer: str, right: float) -> None:
    # Against em alone a covering answer would earn the format too, and so more than the very answer.
    reward = {"cover_em": {"weight": 1.0}, "format": {"weight": 0.1}}
    assert parts(reward, played(answer)) == {"cover_em": right, "format": pytest.approx(0.1 * (1 - right))}
    both = {"em": {"weight": 1.0}, **reward}
    assert parts(both, played("big town"))["format"] == parts(both, played("big town hall"))["format"] == 0.0


def test_shaping_counts_without_an_answer_and_is_not_divided() -> None:
    reward = {**DEFAULT, "steps": {"weight": 0.1, "growth": "linear"}}
    assert parts(reward, played(None, turns=3)) == pytest.approx({"em": 0.0, "format": 0.0, "steps": -0.3})
    assert parts(reward, played("big town", blocks=2, turns=3))["steps"] == pytest.approx(-0.3)


ANSWERS = st.one_of(st.none(), st.sampled_from(["Big Town", "big", "x", ""]))


@given(
    ANSWERS,
    st.integers(1, 5),
    st.integers(0, 20),
    st.lists(st.text("ab ", max_size=5), max_size=4),
    st.one_of(st.none(), st.integers(0, 20)),
)
def test_outcomes_never_punish_and_shaping_here_never_pays(answer, blocks, tokens, queries, step) -> None:
    found = parts(EVERY, played(answer, blocks, tokens, queries=queries, step=step, turns=len(queries) + 1))
    for name, value in found.items():
        kind = REWARDS["three_part" if name.startswith("three_part") else name].kind
        assert value >= 0.0 if kind == "outcome" else value <= 0.0
    assert answer is not None or all(value <= 0.0 for value in found.values())
