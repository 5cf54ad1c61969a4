"""verl's own keys that are right and would do nothing beside the section `rl` as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.params import Rl
from tasks.training.overrides import flatten

_LOSS = "actor_rollout_ref.actor.policy_loss"
_ENGINES = "actor_rollout_ref.rollout.engine_kwargs"


def faults(settings: Mapping[str, Any], rl: Rl) -> Iterator[tuple[str, str]]:
    """Keys that cannot act, and why.

    Args:
        settings: the section `verl`, nested or dotted or both.
        rl: the section beside it.
    """
    idle = dict(_idle(rl))
    for key, _ in flatten(settings):
        for above, why in idle.items():
            if f"{key}.".startswith(f"{above}."):
                yield key, why


def _idle(rl: Rl) -> Iterator[tuple[str, str]]:
    """Keys below which nothing acts, and why."""
    for engine in ("sglang", "trtllm"):
        yield f"{_ENGINES}.{engine}", "the engine is vllm"
    if rl.critic is None:
        yield "critic", "no critic is trained (rl.critic: null)"
    if rl.kl.route == "none":
        yield "actor_rollout_ref.ref", "there is no reference policy (rl.kl.route: none)"
    if rl.dynamic_sampling is None:
        yield "algorithm.filter_groups.max_inflight_gen_batches", "nothing is sampled anew (rl.dynamic_sampling: null)"
    if rl.rollout_correction is None or rl.rollout_correction.weights is None:
        yield (
            "algorithm.rollout_correction.rollout_is_batch_normalize",
            "there are no weights (rl.rollout_correction.weights: null)",
        )
    if rl.loss != "clip_cov":
        for name in ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub"):
            yield f"{_LOSS}.{name}", f"it is loss clip_cov's (rl.loss: {rl.loss})"
    if rl.loss != "kl_cov":
        for name in ("kl_cov_ratio", "ppo_kl_coef"):
            yield f"{_LOSS}.{name}", f"it is loss kl_cov's (rl.loss: {rl.loss})"
    yield f"{_LOSS}.dro_beta", "it is loss dro's, which rl.loss does not have"
