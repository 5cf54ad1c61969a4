"""What in the section `rl` would be taken and do nothing, or could not be divided: refused, with the way out."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.params.algorithm import Clip, Kl, Rl


def sizes_that_do_not_divide(rl: Rl) -> Iterator[str]:
    """Lines on batch sizes that are no whole number of parts: verl would drop rows, pad, or stop after its start."""
    if rl.prompts % rl.updates:
        yield f"rl.updates: {rl.updates} optimizer steps a batch do not divide rl.prompts: {rl.prompts}"
        return
    micro = min(rl.micro_batch_size, rl.mini_batch)
    if rl.mini_batch % micro:
        yield (
            f"rl.micro_batch_size: {micro} must divide the {rl.mini_batch} rollouts of an optimizer step, "
            "rl.prompts / rl.updates x rl.samples"
        )


def settings_that_cannot_act(rl: Rl) -> Iterator[str]:
    """Lines on settings that would be accepted and do nothing, with the way out."""
    yield from sizes_that_do_not_divide(rl)
    yield from _estimator(rl)
    yield from _ratios(rl)
    yield from _kl(rl.kl)
    yield from _groups(rl)
    yield from _correction(rl)


def _estimator(rl: Rl) -> Iterator[str]:
    named = f"rl.advantage: {rl.advantage}"
    if rl.samples == 1 and rl.advantage in ("grpo", "rloo"):
        yield f"rl.samples: 1 rollout a question has no group to be compared with ({named}); take 2 or more"
    if rl.advantage != "grpo" and not rl.std_normalisation:
        yield f"rl.std_normalisation: false cannot act, since only grpo divides by the deviation ({named})"
    if rl.credit.level == "turn":
        yield from _turns(rl)
    elif rl.credit.weight != 0.5:
        yield "rl.credit.weight: cannot act with level: trajectory; set level: turn, or leave it at .5"
    if rl.advantage not in ("gae", "reinforce_plus_plus") and rl.gamma != 1:
        yield f"rl.gamma: {rl.gamma:g} cannot act: {rl.advantage} discounts nothing; set 1"
    if rl.advantage != "gae" and rl.lam != 1:
        yield f"rl.lam: {rl.lam:g} cannot act without a critic ({named}); set 1"
    if rl.advantage == "gae" and rl.critic is None:
        yield "rl.critic: advantage gae needs a critic; give it {learning_rate: 1.0e-5, warmup_steps: 0}"
    if rl.critic is not None and rl.critic.warmup_steps >= rl.steps:
        yield f"rl.critic.warmup_steps: {rl.critic.warmup_steps} leave the policy none of rl.steps: {rl.steps}"
    if rl.advantage != "gae" and rl.critic is not None:
        yield f"rl.critic: cannot act, since no critic is trained ({named}); set null"


def _turns(rl: Rl) -> Iterator[str]:
    key = "rl.credit.level"
    if rl.advantage != "grpo":
        yield f"{key}: turn is an estimator over groups, of advantage grpo (rl.advantage: {rl.advantage})"
    if rl.kl.route == "reward":
        yield f"{key}: turn would pay each turn for its KL, to the size of a success; set rl.kl.route: loss or none"
    if not rl.mask_observations:
        yield f"{key}: turn knows the turns by the mask; set rl.mask_observations: true"


def _ratios(rl: Rl) -> Iterator[str]:
    """Of the loss: with one update a batch every ratio is 1."""
    way_out = "take rl.updates: 2 or more"
    if rl.on_policy:
        why = "with one update a batch every probability ratio is exactly 1"
        if rl.loss in ("gspo", "geo_mean", "kl_cov"):
            yield f"rl.loss: {rl.loss} cannot act: {why}; {way_out}"
        if rl.clip != Clip(low=0.2, high=0.2, dual=3.0):
            yield f"rl.clip: cannot act: {why}; {way_out}, or leave it at low .2, high .2, dual 3"
        if rl.off_policy_mask is not None:
            yield f"rl.off_policy_mask: cannot act: {why}; {way_out}, or rollout_correction.mode: bypass"
    if rl.loss != "vanilla" and rl.clip.dual != 3.0:
        yield f"rl.clip.dual: only loss vanilla clips twice (rl.loss: {rl.loss}); set 3"
    if rl.loss in ("gpg", "kl_cov") and (rl.clip.low, rl.clip.high) != (0.2, 0.2):
        yield f"rl.clip: loss {rl.loss} clips no ratio; set low .2 and high .2"
    if rl.loss != "vanilla" and rl.off_policy_mask is not None:
        yield f"rl.off_policy_mask: is laid over loss vanilla alone (rl.loss: {rl.loss}); set null, or rl.loss: vanilla"
    if rl.loss == "geo_mean":
        yield from _geo_mean(rl)


def _geo_mean(rl: Rl) -> Iterator[str]:
    """Of verl 0.9.1's loss geo_mean (trainer/ppo/core_algos.py:1929), which takes a mean of its own."""
    if rl.aggregation != "token-mean":
        yield "rl.aggregation: loss geo_mean has its own; set token-mean"
    if rl.micro_batch_size < rl.mini_batch:
        yield (
            f"rl.micro_batch_size: loss geo_mean is a mean over a micro-batch, and verl adds these up; set "
            f"{rl.mini_batch}, the rollouts of an optimizer step"
        )
    if rl.advantage == "gae" or rl.credit.level == "turn":
        yield "rl.loss: geo_mean has one advantage a trajectory, not one a token or a turn; set another loss"


def _kl(kl: Kl) -> Iterator[str]:
    if kl.route == "none" and kl != Kl(route="none", coefficient=1e-3, estimator="k3", target=None, horizon=10000):
        yield "rl.kl: coefficient, estimator, target and horizon cannot act with route: none; set loss or reward"
    if kl.route == "reward" and kl.coefficient == 0:
        yield "rl.kl.coefficient: 0 cannot act on the reward; to measure the KL alone set route: loss, coefficient: 0"
    if kl.route == "loss" and kl.target is not None:
        yield "rl.kl.target: the adaptive controller acts on the reward alone; set rl.kl.route: reward, or target: null"
    if kl.target is None and kl.horizon != 10000:
        yield "rl.kl.horizon: is the adaptive controller's, which needs rl.kl.target"


def _groups(rl: Rl) -> Iterator[str]:
    if rl.dynamic_sampling is not None and rl.samples == 1:
        yield "rl.dynamic_sampling: groups of 1 rollout are never mixed; take rl.samples: 2 or more"
    if rl.keep_groups < 1:
        if rl.dynamic_sampling is None and rl.most_groups == rl.prompts:
            yield f"rl.keep_groups: {rl.keep_groups} of so few groups drops none; take a smaller share, or 1"
        if rl.samples == 1:
            yield "rl.keep_groups: groups of 1 rollout have no deviation; take rl.samples: 2 or more"
        if rl.dynamic_sampling is not None:
            yield "rl.keep_groups: and rl.dynamic_sampling both choose the groups; set one of them"


def _correction(rl: Rl) -> Iterator[str]:
    one = rl.rollout_correction
    if one is None:
        return
    key = "rl.rollout_correction"
    if (one.reject is None) != (one.bounds is None):
        yield f"{key}: reject and bounds go together"
    elif one.bounds is not None and len(one.bounds) == 2:
        if not (one.reject or "").endswith("k1"):
            yield f"{key}.bounds: {one.reject} has an upper bound alone; give one number"
        elif one.bounds[0] >= one.bounds[1]:
            yield f"{key}.bounds: the lower one must be below the upper one"
    elif one.bounds is not None and (one.reject or "").endswith("k1") and one.bounds[0] <= 1:
        upper = f"{one.bounds[0]:g}"
        yield f"{key}.bounds: {upper} alone is {one.reject}'s upper bound, and 1 over it the lower; take more than 1"
    if one.weights is None and one.threshold != 2.0:
        yield f"{key}.threshold: cuts the weights, and there are none; set 2, or weights: token or sequence"
    if one.mode == "decoupled":
        if one.loss != "ppo_clip":
            yield f"{key}.loss: {one.loss} acts with mode: bypass alone"
        if one.weights is None and one.reject is None:
            yield f"{key}: mode decoupled corrects nothing without weights or reject"
        if (one.reject or "").startswith("token") and rl.advantage in ("gae", "reinforce_plus_plus"):
            # The reward stands at the last token; verl's recursions lose it where the mask is 0.
            yield (
                f"{key}.reject: {one.reject} may reject the token that the reward stands at, and {rl.advantage} would "
                "lose it; take seq_mean_... or another of whole sequences"
            )
        if one.reject is not None and rl.credit.level == "turn":
            yield f"{key}.reject: makes holes in the mask, by which rl.credit.level: turn knows the turns; set null"
    else:
        if rl.loss != "vanilla":
            yield f"{key}.mode: bypass has a loss of its own, {key}.loss; set rl.loss: vanilla (it is {rl.loss})"
        if one.loss == "ppo_clip" and one.weights is not None:
            yield f"{key}.weights: are not applied with bypass and ppo_clip, whose ratio is the correction; set null"
        if one.loss == "reinforce" and rl.clip != Clip(low=0.2, high=0.2, dual=3.0):
            yield "rl.clip: cannot act: loss reinforce clips nothing; leave it at low .2, high .2, dual 3"
        if rl.off_policy_mask is not None and one.loss != "ppo_clip":
            yield "rl.off_policy_mask: goes with rl.rollout_correction.loss: ppo_clip"
        if rl.off_policy_mask is not None and one.reject is not None:
            yield f"{key}.reject: has no loss to act in, since rl.off_policy_mask takes its place; set one of them null"
    if not rl.mask_observations:
        yield f"{key}: the engine has no probabilities of what it did not generate; set rl.mask_observations: true"
