"""Figures of stage rl; those of its validations are tested with the climb that they are drawn as."""

from pathlib import Path

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.params.algorithm import DynamicSampling
from tasks.rl import _engine_against_actor, _episodes, _require_a_step, _shown


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
    counts = {"no_loss_on_traj": 1, "tool_failures": 5, "copied_example": 4}
    trained = [{"step": step, "data": one} for step, one in enumerate(data, start=1)]
    assert _episodes(trained, grouped=True) == {"groups_without_signal": 0.75, **counts}
    for one in data:
        del one["episode/groups_without_signal"]  # as where each question is rolled out once
    assert _episodes(trained, grouped=False) == {"groups_without_signal": None, **counts}


def test_a_step_that_trains_the_critic_alone_has_no_figures_of_the_policys_update() -> None:
    assert _shown({"actor/grad_norm": 0.126}, "actor/grad_norm", 2) == "0.13"
    assert _shown({}, "actor/grad_norm", 2) == "-"


FILTER = DynamicSampling(max_batches=3)


@pytest.mark.parametrize(
    ("enough", "too_many", "words"),
    [
        ({"prompts": 12}, {"prompts": 13}, r"12 questions do not make a step of rl\.prompts: 13.*lower rl\.prompts"),
        (
            {"prompts": 4, "dynamic_sampling": FILTER},
            {"prompts": 5, "dynamic_sampling": FILTER},
            r"12 questions are fewer than the 15 that a step may play by rl\.dynamic_sampling\.max_batches.*lower",
        ),
        (
            {"prompts": 6, "keep_groups": 0.5},
            {"prompts": 6, "keep_groups": 0.45},
            r"12 questions are fewer than the 14 that a step may play by rl\.keep_groups.*raise rl\.keep_groups",
        ),
    ],
)
def test_fewer_rows_than_a_step_may_play_are_refused(tmp_path: Path, defaults, enough, too_many, words: str) -> None:
    rows = tmp_path / "rows.parquet"
    pd.DataFrame({"n": range(12)}).to_parquet(rows)
    _require_a_step(rows, defaults.rl.model_copy(update=enough))
    with pytest.raises(InputError, match=words):
        _require_a_step(rows, defaults.rl.model_copy(update=too_many))
