"""Section rl: settings that are good alone and do nothing, or harm, together."""

import pytest

from tasks import params
from tasks.errors import InputError

TURN = {"credit": {"level": "turn"}}
REJECT = {"reject": "token_k1", "bounds": [0.5, 2.0]}


@pytest.mark.parametrize(
    ("rl", "words"),
    [
        ({"updates": 2, "loss": "geo_mean"}, "rl.micro_batch_size: loss geo_mean is a mean over a micro-batch.*set 64"),
        ({"updates": 2, "loss": "geo_mean", "micro_batch_size": 64, **TURN}, "rl.loss: geo_mean has one advantage"),
        ({"updates": 2, "loss": "gspo", "off_policy_mask": 0.1}, "rl.off_policy_mask: is laid over loss vanilla alone"),
        (
            {"off_policy_mask": 0.1, "rollout_correction": {"mode": "bypass", **REJECT}},
            "rl.rollout_correction.reject: has no loss to act in",
        ),
        ({"rollout_correction": {"mode": "decoupled", **REJECT}, **TURN}, "rl.rollout_correction.reject: makes holes"),
        ({"kl": {"route": "reward"}, **TURN}, "rl.credit.level: turn would pay each turn for its KL"),
        ({"mask_observations": False, **TURN}, "rl.credit.level: turn knows the turns by the mask"),
    ],
)
def test_refused_together(workspace, rl: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        params.resolve("tiny", {"rl": rl})


@pytest.mark.parametrize(
    "rl",
    [
        {"updates": 2, "loss": "geo_mean", "micro_batch_size": 64},
        {"updates": 2, "off_policy_mask": 0.1, "rollout_correction": {"mode": "decoupled", **REJECT}},
        {"off_policy_mask": 0.1, "rollout_correction": {"mode": "bypass"}},
        {"rollout_correction": {"mode": "decoupled", "weights": "token"}, **TURN},
        {"rollout_correction": {"mode": "bypass", **REJECT}, **TURN},
        {"kl": {"route": "loss"}, **TURN},
    ],
)
def test_accepted_together(workspace, rl: dict) -> None:
    assert params.overlay(found := params.resolve("tiny", {"rl": rl})["rl"], rl) == found
