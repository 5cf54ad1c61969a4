"""What the system showed has no part in what is learnt: log-probabilities, values, advantages and entropies there may
be anything, nothing changes, and their gradient is exactly 0."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import apply_kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.torch_functional import masked_whiten
from verl.workers.config import CriticConfig, FSDPActorConfig, PolicyLossConfig
from verl.workers.utils.losses import ppo_loss, value_loss

from tasks.training.estimators import reinforce_plus_plus
from tasks.training.losses import OffPolicyMaskConfig

AGGREGATIONS = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
BYPASS = {"rollout_is": "token", "rollout_rs": "token_k1", "rollout_rs_threshold": "0.5_2.0"}
LOSSES: dict[str, PolicyLossConfig] = {
    **{name: PolicyLossConfig(loss_mode=name) for name in ("vanilla", "gspo", "gpg", "clip_cov", "kl_cov", "geo_mean")},
    "bypass, ppo_clip": PolicyLossConfig(
        loss_mode="bypass_mode", rollout_correction={**BYPASS, "loss_type": "ppo_clip"}
    ),
    "bypass, reinforce": PolicyLossConfig(
        loss_mode="bypass_mode", rollout_correction={**BYPASS, "loss_type": "reinforce"}
    ),
    "off_policy_mask": OffPolicyMaskConfig(loss_mode="forager_off_policy_mask", off_policy_delta=0.05),
}


@st.composite
def masks(draw: st.DrawFn) -> torch.Tensor:
    """(rollouts, tokens): at least two are 1, and a rollout has both; another may be all 0 or all 1."""
    width = draw(st.integers(2, 7))
    row = st.lists(st.booleans(), min_size=width, max_size=width)
    mixed = row.filter(lambda one: len(set(one)) == 2)
    drawn = [draw(mixed), *draw(st.lists(row, min_size=1, max_size=3).filter(lambda rows: any(map(any, rows))))]
    return torch.tensor(drawn)


seeds = st.integers(0, 2**31)
kinds = st.sampled_from(["kl", "mse", "low_var_kl"])


def tensors(mask: torch.Tensor, seed: int) -> SimpleNamespace:
    """A batch at random: log-probabilities of four policies below 0, and the rest about 0."""
    random = torch.Generator().manual_seed(seed)

    def normal(scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(mask.shape, generator=random)

    new = -normal(2.0).abs()
    return SimpleNamespace(
        new=new, old=new + normal(0.2), ref=new + normal(0.2), advantages=normal(), entropy=normal().abs(),
        values=normal(), returns=normal(), vpreds=normal(), weights=normal().abs(), rewards=normal(),
    )  # fmt: skip


def other_where_masked(batch: SimpleNamespace, mask: torch.Tensor, seed: int) -> SimpleNamespace:
    random = torch.Generator().manual_seed(seed)
    other = {name: 3 * torch.randn(mask.shape, generator=random) for name in vars(batch)}
    other["weights"] = other["weights"].abs()  # geo_mean takes their logarithm; a ratio is never below 0
    return SimpleNamespace(**{name: torch.where(mask, value, other[name]) for name, value in vars(batch).items()})


def settle(loss: torch.Tensor, leaf: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and gradient, which must be exactly 0 at the mask's zeros."""
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert torch.equal(gradient[~mask], torch.zeros_like(gradient[~mask]))
    return loss.detach(), gradient


def holds(compute: Callable[[SimpleNamespace], Any], mask: torch.Tensor, seed: int) -> None:
    """The same result whatever stands at the mask's zeros."""
    batch = tensors(mask, seed)
    torch.manual_seed(0)  # clip_cov draws tokens
    first = compute(batch)
    torch.manual_seed(0)
    torch.testing.assert_close(compute(other_where_masked(batch, mask, seed + 1)), first, rtol=1e-5, atol=1e-7)


def actor(name: str, mask: torch.Tensor, **changed: Any) -> FSDPActorConfig:
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, policy_loss=LOSSES[name], **changed
    )
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=len(mask), loss_scale_factor=None
    )
    return config


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=30)
@given(mask=masks(), seed=seeds, aggregation=st.sampled_from(AGGREGATIONS), weighted=st.booleans())
def test_the_policy_loss(name: str, mask: torch.Tensor, seed: int, aggregation: str, weighted: bool) -> None:
    config = actor(name, mask)
    loss_of = core_algos.get_policy_loss_fn(config.policy_loss.loss_mode)

    def compute(batch: SimpleNamespace) -> tuple[Any, ...]:
        new = batch.new.clone().requires_grad_()
        weights = batch.weights if weighted else None
        loss, metrics = loss_of(batch.old, new, batch.advantages, mask, aggregation, config, weights)
        shown = torch.tensor([metrics[key] for key in sorted(metrics)])
        return *settle(loss, new, mask), shown

    holds(compute, mask, seed)


@settings(max_examples=30)
@given(
    mask=masks(),
    seed=seeds,
    aggregation=st.sampled_from(AGGREGATIONS),
    kind=st.sampled_from(["kl", "mse", "low_var_kl"]),
)
def test_kl_and_entropy_in_the_loss(mask: torch.Tensor, seed: int, aggregation: str, kind: str) -> None:
    def kl(batch: SimpleNamespace) -> tuple[Any, ...]:
        new = batch.new.clone().requires_grad_()
        penalty = core_algos.kl_penalty(new, batch.ref, kind)
        return settle(core_algos.agg_loss(penalty, mask, aggregation), new, mask)

    def entropy(batch: SimpleNamespace) -> tuple[Any, ...]:
        leaf = batch.entropy.clone().requires_grad_()
        return settle(core_algos.agg_loss(leaf, mask, aggregation), leaf, mask)

    holds(kl, mask, seed)
    holds(entropy, mask, seed)


@settings(max_examples=30)
@given(mask=masks(), seed=seeds, kind=kinds)
def test_kl_in_the_reward(mask: torch.Tensor, seed: int, kind: str) -> None:
    def compute(batch: SimpleNamespace) -> tuple[torch.Tensor, ...]:
        data = DataProto.from_dict(
            {
                "response_mask": mask.long(),
                "token_level_scores": batch.rewards * mask,
                "old_log_probs": batch.old,
                "ref_log_prob": batch.ref,
            }
        )
        controller = core_algos.AdaptiveKLController(0.1, 0.5, 100)
        data, metrics = apply_kl_penalty(data, controller, kind)
        assert not bool(data.batch["token_level_rewards"][~mask].any())
        return data.batch["token_level_rewards"], torch.tensor([*metrics.values(), controller.value])

    holds(compute, mask, seed)


@settings(max_examples=30)
@given(mask=masks(), seed=seeds, gamma=st.sampled_from([1.0, 0.9]), lam=st.sampled_from([1.0, 0.5]))
def test_returns_advantages_and_their_whitening(mask: torch.Tensor, seed: int, gamma: float, lam: float) -> None:
    config = SimpleNamespace(gamma=gamma)

    def gae(batch: SimpleNamespace) -> list[torch.Tensor]:
        advantages, returns = core_algos.compute_gae_advantage_return(
            batch.rewards * mask, batch.values, mask.long(), gamma, lam
        )
        return [advantages[mask], returns[mask]]

    def whitened(batch: SimpleNamespace) -> torch.Tensor:
        return masked_whiten(batch.rewards, mask)[mask]

    def whitened_returns(batch: SimpleNamespace) -> list[torch.Tensor]:
        made = reinforce_plus_plus(batch.rewards * mask, mask.long(), config=config)
        assert not any(bool(one[~mask].any()) for one in made)
        return list(made)

    for compute in (gae, whitened, whitened_returns):
        holds(compute, mask, seed)


@settings(max_examples=30)
@given(mask=masks(), seed=seeds, aggregation=st.sampled_from(AGGREGATIONS))
def test_the_value_loss(mask: torch.Tensor, seed: int, aggregation: str) -> None:
    def compute(batch: SimpleNamespace) -> tuple[Any, ...]:
        predicted = batch.vpreds.clone().requires_grad_()
        loss, clipped = core_algos.compute_value_loss(predicted, batch.returns, batch.values, mask, 0.5, aggregation)
        return *settle(loss, predicted, mask), clipped

    holds(compute, mask, seed)


def nested(rows: torch.Tensor) -> torch.Tensor:
    return torch.nested.as_nested_tensor(list(rows.unbind()), layout=torch.jagged)


def workers_batch(batch: SimpleNamespace, mask: torch.Tensor, **names: str) -> TensorDict:
    """As a worker gets it from verl: nested, with a prompt of two tokens."""
    prompt = torch.zeros(len(mask), 2, dtype=torch.long)
    fields = {"prompts": prompt, "responses": torch.zeros_like(mask, dtype=torch.long), "response_mask": mask.long()}
    fields |= {field: getattr(batch, name) for field, name in names.items()}
    return tu.get_tensordict(
        {field: nested(value) for field, value in fields.items()},
        {"dp_size": 1, "batch_num_tokens": int(mask.sum()), "global_batch_size": len(mask)},
    )


def behind_the_prompt(response: torch.Tensor) -> torch.Tensor:
    """A model's output for prompt and response: that for a response's token stands one token before it."""
    return nested(torch.nn.functional.pad(response, (1, 1)))


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=10)
@given(mask=masks(), seed=seeds)
def test_all_that_verls_worker_adds_up(name: str, mask: torch.Tensor, seed: int) -> None:
    config = actor(name, mask, use_kl_loss=True, kl_loss_coef=0.1, entropy_coeff=0.01)

    def actor_loss(batch: SimpleNamespace) -> list[torch.Tensor]:
        new, entropy = batch.new.clone().requires_grad_(), batch.entropy.clone().requires_grad_()
        data = workers_batch(batch, mask, old_log_probs="old", advantages="advantages", ref_log_prob="ref")
        made = {"log_probs": behind_the_prompt(new), "entropy": behind_the_prompt(entropy)}
        loss, _ = ppo_loss(config, made, data)
        gradients = torch.autograd.grad(loss, [new, entropy])
        for gradient in gradients:
            assert not bool(gradient[~mask].any())
        assert bool(gradients[1][mask].any())
        return [loss.detach(), *gradients]

    holds(actor_loss, mask, seed)


@settings(max_examples=10)
@given(mask=masks(), seed=seeds)
def test_all_that_verls_critic_adds_up(mask: torch.Tensor, seed: int) -> None:
    config = CriticConfig(strategy="fsdp2", ppo_micro_batch_size_per_gpu=1)

    def critic_loss(batch: SimpleNamespace) -> tuple[Any, ...]:
        predicted = batch.vpreds.clone().requires_grad_()
        data = workers_batch(batch, mask, values="values", returns="returns")
        loss, _ = value_loss(config, {"values": behind_the_prompt(predicted)}, data)
        return settle(loss, predicted, mask)

    holds(critic_loss, mask, seed)


def test_geo_mean_adds_up_micro_batches_which_is_why_params_ask_for_one() -> None:
    # When this fails, the line on rl.micro_batch_size in tasks/params/algorithm.py may go.
    mask = torch.ones(4, 3, dtype=torch.bool)
    batch, config = tensors(mask, 1), actor("geo_mean", mask)

    def loss(rows: slice) -> torch.Tensor:
        return core_algos.get_policy_loss_fn("geo_mean")(
            batch.old[rows], batch.new[rows], batch.advantages[rows], mask[rows], "token-mean", config
        )[0]

    whole = loss(slice(0, 4))
    torch.testing.assert_close(loss(slice(0, 2)) + loss(slice(2, 4)), 2 * whole)
