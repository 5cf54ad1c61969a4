"""Figures of a whole run; those of its validations are tested with the climb that they are drawn as."""

import pytest

from tasks.params.algorithm import RolloutCorrection
from tasks.training.rl_figures import engine_against_actor, episodes


def step(number: int, prob: float, highest: float, lowest: float) -> dict:
    """A step as verl logs it: the largest difference of a token's probability, and of responses' mean log-probs."""
    differences = {"rollout_corr/log_ppl_diff_max": highest, "rollout_corr/log_ppl_diff_min": lowest}
    return {"step": number, "data": {"training/rollout_probs_diff_max": prob, **differences}}


def test_the_largest_differences_of_all_steps_count_whatever_their_sign(defaults) -> None:
    trained = [step(1, 0.1, 0.01, -0.02), step(2, 0.4, 0.05, -0.3), step(3, 0.2, 0.06, 0.0)]
    assert engine_against_actor(trained, defaults.rl) == {"rollout_prob_diff_max": 0.4, "rollout_logprob_diff_max": 0.3}
    assert engine_against_actor(trained[::2], defaults.rl)["rollout_logprob_diff_max"] == 0.06


@pytest.mark.parametrize("data", [{}, step(1, 0.9, 7.0, -7.0)["data"]])
@pytest.mark.parametrize(
    "changed", [{"mask_observations": False}, {"rollout_correction": RolloutCorrection(mode="bypass")}]
)
def test_there_are_none_where_observations_are_trained_on_or_the_actor_is_bypassed(
    defaults, changed: dict, data: dict
) -> None:
    found = engine_against_actor([{"step": 1, "data": data}], defaults.rl.model_copy(update=changed))
    assert found == {"rollout_prob_diff_max": None, "rollout_logprob_diff_max": None}


def test_what_the_rollouts_of_all_steps_were_like(defaults) -> None:
    names = ("groups/generated", "groups_without_signal", "no_loss_on_traj", "tool_failures/all", "copied_example")
    data = [
        dict(zip((f"episode/{name}" for name in names), values, strict=True))
        for values in ((16, 0.5, 1, 2, 0), (40, 1.0, 0, 3, 4))
    ]
    counts = {"no_loss_on_traj": 1, "tool_failures": 5, "copied_example": 4}
    trained = [{"step": step, "data": one} for step, one in enumerate(data, start=1)]
    assert episodes(trained, defaults.rl) == {
        "groups_without_signal": 0.75, "generations_per_batch": 1.75, **counts,
    }  # fmt: skip
    for one in data:
        del one["episode/groups_without_signal"], one["episode/groups/generated"]  # each question is rolled out once
    once = defaults.rl.model_copy(update={"samples": 1})
    assert episodes(trained, once) == {"groups_without_signal": None, "generations_per_batch": 1.0, **counts}
