"""Figures of stage rl; those of its validations are tested with the climb that they are drawn as."""

from pathlib import Path

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.rl import _engine_against_actor, _episodes, _require_a_step


def step(number: int, prob: float, highest: float, lowest: float) -> dict:
    """A step as verl logs it: the largest difference of a token's probability, and of responses' mean log-probs."""
    differences = {"rollout_corr/log_ppl_diff_max": highest, "rollout_corr/log_ppl_diff_min": lowest}
    return {"step": number, "data": {"training/rollout_probs_diff_max": prob, **differences}}


def test_the_largest_differences_of_all_steps_count_whatever_their_sign() -> None:
    trained = [step(1, 0.1, 0.01, -0.02), step(2, 0.4, 0.05, -0.3), step(3, 0.2, 0.06, 0.0)]
    assert _engine_against_actor(trained, True) == {"rollout_prob_diff_max": 0.4, "rollout_logprob_diff_max": 0.3}
    assert _engine_against_actor(trained[::2], True)["rollout_logprob_diff_max"] == 0.06


@pytest.mark.parametrize("data", [{}, step(1, 0.9, 7.0, -7.0)["data"]])
def test_there_are_none_where_observations_are_trained_on(data: dict) -> None:
    found = _engine_against_actor([{"step": 1, "data": data}], False)
    assert found == {"rollout_prob_diff_max": None, "rollout_logprob_diff_max": None}


def test_what_the_rollouts_of_all_steps_were_like() -> None:
    names = ("groups_without_signal", "no_loss_on_traj", "tool_failures/all", "copied_example")
    data = [
        dict(zip((f"episode/{name}" for name in names), values, strict=True))
        for values in ((0.5, 1, 2, 0), (1.0, 0, 3, 4))
    ]
    assert _episodes([{"step": step, "data": one} for step, one in enumerate(data, start=1)]) == {
        "groups_without_signal": 0.75,
        "no_loss_on_traj": 1,
        "tool_failures": 5,
        "copied_example": 4,
    }


def test_fewer_rows_than_a_step_has_are_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pd.DataFrame({"n": range(5)}).to_parquet(rows)
    _require_a_step(rows, 5)
    with pytest.raises(InputError, match=r"5 questions do not make a step of rl\.prompts: 6"):
        _require_a_step(rows, 6)
