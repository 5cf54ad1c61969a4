"""The section `rl`: what is estimated, clipped, filtered and corrected, and how long; params/defaults.yaml explains it.

`rl.algorithm` names a file of params/presets/algorithms/, which lies under the profile: it sets the keys that make the
algorithm, and a profile may still change each of them.
"""

from __future__ import annotations

from math import ceil
from typing import Annotated, Literal

from pydantic import Field

from tasks.sections import Count, Float, Positive, Section, Share

Algorithm = Literal["grpo", "dr_grpo", "dapo", "dapo_dr", "gspo", "ppo", "rloo", "reinforce_plus_plus"]
Advantage = Literal["grpo", "gae", "rloo", "reinforce_plus_plus"]
Loss = Literal["vanilla", "gspo", "gpg", "clip_cov", "kl_cov", "geo_mean"]
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
Rejection = Literal[
    "token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3", "seq_mean_k1", "seq_mean_k2",
    "seq_mean_k3", "seq_max_k2", "seq_max_k3",
]  # fmt: skip
Number = Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]


def groups_to_generate(prompts: int, keep: float) -> int:
    """How many groups are generated so that a share of them is a batch.

    Args:
        prompts: groups of a batch.
        keep: share that is kept, in (0, 1].
    """
    return ceil(round(prompts / keep, 6))  # 9 / .3 is a little more than 30


class Credit(Section):
    level: Literal["trajectory", "turn"]
    weight: Number


class Clip(Section):
    low: Number
    high: Number
    dual: Annotated[float, Field(gt=1, strict=False, allow_inf_nan=False)]


class Kl(Section):
    route: Literal["none", "loss", "reward"]
    coefficient: Float
    estimator: Literal["k1", "k2", "k3"]
    target: Number | None
    horizon: Positive


class DynamicSampling(Section):
    metric: Literal["success", "reward"] = "success"
    max_batches: Annotated[int, Field(ge=2)] = 10


class SoftOverlong(Section):
    weight: Number = 1.0
    share: Annotated[float, Field(gt=0, lt=1)] = 0.2


class RolloutCorrection(Section):
    mode: Literal["decoupled", "bypass"]
    weights: Literal["token", "sequence"] | None = None
    threshold: Number = 2.0
    reject: Rejection | None = None
    bounds: Annotated[list[Number], Field(min_length=1, max_length=2)] | None = None
    loss: Literal["ppo_clip", "reinforce"] = "ppo_clip"


class Critic(Section):
    learning_rate: Number
    warmup_steps: Count = 0


class SanityCheck(Section):
    episodes: Positive
    max_logprob_diff: Float


class Rl(Section):
    algorithm: Algorithm
    advantage: Advantage
    std_normalisation: bool
    gamma: Share
    lam: Share
    credit: Credit
    loss: Loss
    aggregation: Aggregation
    clip: Clip
    entropy_coefficient: Float
    kl: Kl
    dynamic_sampling: DynamicSampling | None
    keep_groups: Annotated[float, Field(gt=0, le=1)]
    soft_overlong: SoftOverlong | None
    rollout_correction: RolloutCorrection | None
    off_policy_mask: Number | None
    critic: Critic | None
    steps: Positive
    prompts: Positive
    samples: Positive
    updates: Positive
    epochs: Positive
    learning_rate: Float
    temperature: Number
    mask_observations: bool
    validate_every: Positive
    validation_questions: Positive
    keep: Positive
    micro_batch_size: Positive
    deadline_seconds: Number
    fallback_reward: Annotated[float, Field(strict=False, allow_inf_nan=False)]
    no_loss_on: list[str]
    sanity: SanityCheck
    timeout_minutes: Positive

    @property
    def mini_batch(self) -> int:
        """Rollouts of one optimizer step; `sizes_that_do_not_divide` says where they are no whole number."""
        return self.prompts // self.updates * self.samples

    @property
    def most_groups(self) -> int:
        """The most groups that a step may generate."""
        if self.dynamic_sampling is not None:
            return self.prompts * self.dynamic_sampling.max_batches
        return groups_to_generate(self.prompts, self.keep_groups)

    @property
    def on_policy(self) -> bool:
        """Whether the policy that is updated is always the one whose log-probabilities are the old ones.

        Then every ratio of the loss is exactly 1, and nothing that limits or weighs ratios can act.
        """
        bypass = self.rollout_correction is not None and self.rollout_correction.mode == "bypass"
        return self.updates == 1 and self.epochs == 1 and not bypass
