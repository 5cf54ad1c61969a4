"""DeepSeek-V3.2's mask by hand, and what of verl it rests on."""

from typing import Any

import pytest
import torch
from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY, compute_policy_loss_vanilla
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import FSDPActorConfig, PolicyLossConfig

from tasks.training.losses import OffPolicyMaskConfig, off_policy_mask

DELTA = 0.1
# Drifts of .2, .05 and .2 nats a token; the third trajectory is a good one. 9 and -9 stand where nothing was generated.
OLD = torch.tensor([[-1.0, -1.0, 9], [-1, -1, 9], [-1, -1, 9]])
NEW = torch.tensor([[-1.3, -1.1, -9], [-1.05, -1.05, -9], [-1.3, -1.1, -9]])
ADVANTAGES = torch.tensor([[-1.0, -1, -1], [-1, -1, -1], [2, 2, 2]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 0], [1, 1, 0]]).bool()


def actor(policy_loss: PolicyLossConfig, **info: Any) -> FSDPActorConfig:
    config = FSDPActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, policy_loss=policy_loss)
    config.global_batch_info.update(dp_size=1, batch_num_tokens=6, global_batch_size=3, loss_scale_factor=None, **info)
    return config


def masked(
    delta: float,
    mode: str = "token-mean",
    new: torch.Tensor = NEW,
    advantages: torch.Tensor = ADVANTAGES,
    **changed: Any,
):
    config = actor(OffPolicyMaskConfig(loss_mode="forager_off_policy_mask", off_policy_delta=delta))
    return off_policy_mask(OLD, new, advantages, MASK, mode, config, **changed)


def test_a_bad_trajectory_that_has_drifted_too_far_adds_nothing_and_counts_in_the_divisor() -> None:
    loss, metrics = masked(DELTA)
    # Ratios e^-.05 of the second, e^-.3 and e^-.1 of the third, clipped at .8 from below where that is larger:
    # bad: max(e^-.05, .8); good: -2 x min(ratio, clipped ratio) = -2 e^-.3 and -2 e^-.1. Over all 6 tokens.
    e = torch.tensor([-0.05, -0.3, -0.1]).exp()
    torch.testing.assert_close(loss, (2 * e[0] - 2 * e[1] - 2 * e[2]) / 6)
    assert metrics["actor/off_policy_masked"] == pytest.approx(2 / 6)
    assert set(metrics) == {
        "actor/off_policy_masked", "actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower",
    }  # fmt: skip
    # The KL is of all: .3 and .1 of the masked one, .05 twice, .3 and .1
    assert metrics["actor/ppo_kl"] == pytest.approx((0.3 + 0.1 + 0.05 + 0.05 + 0.3 + 0.1) / 6)


MODES = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
# A critic's: the first trajectory's first token is a good one.
DIFFERING = torch.tensor([[1.0, -1, -1], [-1, -1, -1], [2, 2, 2]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("advantages", [ADVANTAGES, DIFFERING])
def test_what_is_masked_has_no_gradient_and_makes_no_other_larger(advantages: torch.Tensor, mode: str) -> None:
    free, held = NEW.clone().requires_grad_(), NEW.clone().requires_grad_()
    masked(DELTA, mode, new=held, advantages=advantages)[0].backward()
    compute_policy_loss_vanilla(OLD, free, advantages, MASK, mode, actor(PolicyLossConfig()))[0].backward()
    assert held.grad is not None and free.grad is not None
    left = torch.zeros_like(MASK)
    left[0] = advantages[0] < 0
    assert not bool(held.grad[left].any()) and bool(free.grad[left].any())
    assert torch.equal(held.grad[~left], free.grad[~left])


@pytest.mark.parametrize("mode", MODES)
def test_above_every_drift_it_is_verls_own_loss(mode: str) -> None:
    loss, metrics = masked(0.5, mode)
    own, _ = compute_policy_loss_vanilla(OLD, NEW, ADVANTAGES, MASK, mode, actor(PolicyLossConfig()))
    assert torch.equal(loss, own)
    assert metrics["actor/off_policy_masked"] == 0


def test_drift_is_a_mean_over_the_trajectory_and_a_gain_of_probability_is_none() -> None:
    assert masked(0.21)[1]["actor/off_policy_masked"] == 0  # one token has .3, the mean is .2
    gained = OLD + (OLD - NEW)
    assert masked(DELTA, new=gained)[1]["actor/off_policy_masked"] == 0


def test_a_micro_batch_that_is_all_masked_is_a_loss_of_0_with_a_gradient() -> None:
    new = torch.tensor([[-3.0, -3, 9], [-3, -3, 9], [-3, -3, 9]]).requires_grad_()
    config = actor(OffPolicyMaskConfig(off_policy_delta=DELTA))
    loss, _ = off_policy_mask(OLD, new, -ADVANTAGES.abs(), MASK, "token-mean", config)
    loss.backward()
    assert loss.item() == 0 and new.grad is not None and not bool(new.grad.any())


def test_weights_of_rollout_correction_go_through() -> None:
    assert masked(DELTA, rollout_is_weights=torch.full_like(OLD, 2.0))[0] == pytest.approx(2 * masked(DELTA)[0])


def test_without_a_delta_there_is_no_such_loss() -> None:
    with pytest.raises(TypeError, match=r"actor\.policy_loss of tasks\.training\.losses"):
        off_policy_mask(OLD, NEW, ADVANTAGES, MASK, "token-mean", actor(PolicyLossConfig()))
    with pytest.raises(ValueError, match="off_policy_delta"):
        OffPolicyMaskConfig()


def test_verls_section_has_no_key_for_it_and_ours_is_made_by_its_target() -> None:
    # When this fails, OffPolicyMaskConfig may go.
    with pytest.raises(TypeError):
        PolicyLossConfig(off_policy_delta=DELTA)
    section = {
        "_target_": "tasks.training.losses.OffPolicyMaskConfig",
        "loss_mode": "forager_off_policy_mask",
        "off_policy_delta": DELTA,
    }
    made = omega_conf_to_dataclass(section)
    assert isinstance(made, OffPolicyMaskConfig) and made.off_policy_delta == DELTA
    assert POLICY_LOSS_REGISTRY[made.loss_mode] is off_policy_mask
