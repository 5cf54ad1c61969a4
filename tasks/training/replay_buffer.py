"""verl's replay buffer: which of the generated groups are trained on, and no step with nothing to train on.

Three things of verl 0.9.1 (trainer/ppo/v1/) make it necessary: no key sets how often it polls (replay_buffer.py:144),
a custom sampler is not handed `algorithm.filter_groups` (trainer_base.py:165), and there is no StarPO-S. The filtering
itself, its refills and their bound on what runs at a time are verl's own `ReplayBuffer.sample`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from statistics import fmean, pstdev
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import FILTER_GROUPS_REWARD_METRIC, ReplayBuffer

from tasks.params import groups_to_generate

POLL_SECONDS = 0.1
_FILTERED, _KEPT = "training/filter_groups", "training/keep_groups"
Reasons = tuple[set[str], set[str], set[str], Counter[float]]


class PromptReplayBuffer(ReplayBuffer):
    """verl's buffer of a synchronous trainer, with dynamic sampling (DAPO) or StarPO-S' filter where one is asked for.

    Args:
        sampler_kwargs: `filter_groups`, verl's own section `algorithm.filter_groups`: groups whose metric is equal in
            all rollouts are replaced, until `max_num_gen_batches` batches are generated (verl's own buffer ignores
            that key, trainer_base.py:206); `keep_groups`, the share of the generated groups that is kept (Wang et al.
            2025, RAGEN, arXiv 2504.20073: those whose rewards deviate most).
        refill_fn: the trainer's; submits so many fresh prompts, in the order of the data.

    Raises:
        ValueError: groups are to be filtered without a bound on the batches that this may cost.
    """

    def __init__(self, *, sampler_kwargs: Mapping[str, Any], refill_fn: Callable[[int], int], **kwargs: Any) -> None:
        groups = sampler_kwargs.get("filter_groups") or {"enable": False}
        metric = str(groups["metric"]) if groups["enable"] else None
        if metric is not None and groups["max_num_gen_batches"] < 2:
            raise ValueError(
                "algorithm.filter_groups.max_num_gen_batches must be 2 or more, or filtering could go on for ever; "
                "rl.dynamic_sampling.max_batches sets it"
            )
        super().__init__(
            sampler_kwargs=sampler_kwargs,
            refill_fn=self._refill,
            poll_interval=POLL_SECONDS,
            filter_groups_metric=metric,
            gen_batch_size=1,
            max_inflight_gen_batches=groups.get("max_inflight_gen_batches", 1),
            **kwargs,
        )
        self._submit = refill_fn
        self._keep = float(sampler_kwargs.get("keep_groups", 1.0))
        self._batches = int(groups.get("max_num_gen_batches", 0))
        self._step = self._generated = 0
        self._equal: Counter[float] = Counter()
        self._deviations: dict[str, float] = {}

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """As verl's, which a user may override.

        Raises:
            RuntimeError: no token of a training batch is to be trained on (verl would divide the loss by their number,
                trainer/ppo/core_algos.py:1175, and take the largest of no advantages, metric_utils.py:490); or
                dynamic sampling has spent its batches before one was full.
        """
        if partition_id != "train":
            return super().sample(global_steps, partition_id, batch_size)
        self._step, self._generated, self.train_batch_size = global_steps, batch_size, batch_size
        self._equal.clear()
        self._dapo_classification_cache.clear()  # or it would hold every group ever trained on
        surplus = groups_to_generate(batch_size, self._keep) - batch_size
        if surplus:
            self._refill(surplus)
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        self._require_something_to_train_on(batch)
        return batch, {**metrics, **self._figures(metrics, batch_size)}

    def _require_something_to_train_on(self, batch: Any) -> None:
        fields = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["response_mask"])
        if not any(bool(mask.any()) for mask in fields["response_mask"].unbind()):
            raise RuntimeError(
                f"step {self._step}: every trajectory is kept out of the loss. What cut them is in the rollouts' "
                "stop_reason; mend that, or shorten rl.no_loss_on"
            )

    def _figures(self, metrics: Mapping[str, Any], prompts: int) -> dict[str, float]:
        if self.filter_groups_metric is not None:
            verls = [f"{_FILTERED}/evicted_samples", f"{_FILTERED}/discarded_surplus_samples"]
            return {
                **{name: metrics.get(name, 0) for name in verls},  # verl leaves out what is 0
                f"{_FILTERED}/generated_groups": self._generated,
                f"{_FILTERED}/generations_per_batch": self._generated / prompts,
            }
        return dict(self._deviations) if self._keep < 1 else {}

    def _refill(self, prompts: int) -> None:
        """Submit prompts, as many as the bound leaves."""
        if self.filter_groups_metric is not None:
            prompts = min(prompts, self._batches * self.train_batch_size - self._generated)
        if prompts > 0:
            self._submit(prompts)
            self._generated += prompts

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        """As verl's.

        Raises:
            RuntimeError: the batch is not full and nothing is being generated: verl would wait for ever.
        """
        running = self.pending_keys[partition_id] | self.running_keys[partition_id]
        if partition_id == "train" and self.filter_groups_metric is not None and not running:
            full, metric = self.train_batch_size, self.filter_groups_metric
            mixed = len(self.finished_keys[partition_id])
            equal = ", ".join(f"{count} all at {value:g}" for value, count in sorted(self._equal.items()))
            raise RuntimeError(
                f"step {self._step}: of {self._generated} groups only {mixed} have rollouts of different {metric}, "
                f"and a batch needs {full} ({equal}). Take questions that the policy sometimes answers, more "
                "rl.samples, fewer rl.prompts, or a higher rl.dynamic_sampling.max_batches"
            )
        return super()._wait_for_next_poll(partition_id, last_debug_time)

    def _terminal_eviction_reasons(self, global_steps: int, partition_id: str) -> Reasons:
        """As verl's, which does not filter a group of which an episode has failed: with a filter it is replaced."""
        stale, equal, failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        if partition_id == "train" and self.filter_groups_metric is not None:
            failed = failed | self.failure_keys[partition_id]
        return stale, equal, failed, counts

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        """As verl's, by the largest and the smallest value.

        verl compares numpy's deviation with 0 (replay_buffer.py:312), and three rewards of .1 deviate by 1.4e-17.
        """
        if self.filter_groups_metric is None:
            return set(), Counter()
        known = self._dapo_classification_cache[partition_id]
        fresh = self._values(partition_id, self.finished_keys[partition_id] - known.keys(), self.filter_groups_metric)
        for uid, values in fresh.items():
            known[uid] = values[0] if min(values) == max(values) else None
        equal = {uid: value for uid, value in known.items() if value is not None}
        self._equal.update(equal.values())  # once each: the caller clears them, here and in the queue
        return set(equal), Counter(equal.values())

    def _values(self, partition_id: str, uids: set[str], metric: str) -> dict[str, list[float]]:
        """Of each group its rollouts' metric: `reward` from the scores, another from what the episode reports."""
        keys = [key for key in self.partitions[partition_id] if key.split("_")[0] in uids]
        values: dict[str, list[float]] = defaultdict(list)
        if keys:
            field = "rm_scores" if metric == FILTER_GROUPS_REWARD_METRIC else "extra_fields"
            data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=[field])[field]
            for key, value in zip(keys, list(data), strict=True):
                values[key.split("_")[0]].append(_value(value, metric))
        return values

    def _sampleable_terminal_keys(self, partition_id: str, eviction_reasons: Reasons) -> set[str]:
        """As verl's; where the best of all are kept, none before all have ended."""
        keys = super()._sampleable_terminal_keys(partition_id, eviction_reasons)
        waiting = partition_id == "train" and self._keep < 1 and len(keys) < self._generated
        return set() if waiting else keys

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        """The batch's groups in the order of the data, where verl takes a set's (replay_buffer.py:388)."""
        steps = dict(self.prompt_global_steps[partition_id])
        chosen = [uid for uid in steps if uid in sampleable_keys]
        if partition_id == "train" and self._keep < 1:
            chosen = self._most_uncertain(partition_id, chosen, batch_size)
        return chosen[:batch_size], dict(self.partitions[partition_id]), steps

    def _most_uncertain(self, partition_id: str, uids: list[str], count: int) -> list[str]:
        """The groups whose rewards deviate most, the earlier ones among equals; the others are thrown away."""
        rewards = self._values(partition_id, set(uids), FILTER_GROUPS_REWARD_METRIC)
        deviation = {uid: pstdev(rewards[uid]) if rewards[uid] else 0.0 for uid in uids}
        best = set(sorted(uids, key=lambda uid: -deviation[uid])[:count])
        kept, dropped = [uid for uid in uids if uid in best], [uid for uid in uids if uid not in best]
        self._clear_groups(partition_id, set(dropped))
        self._deviations = {
            f"{_KEPT}/generated_groups": len(uids),
            f"{_KEPT}/kept_std": fmean(deviation[uid] for uid in kept),
            f"{_KEPT}/dropped_std": fmean(deviation[uid] for uid in dropped),
        }
        return kept


def _value(value: Any, metric: str) -> float:
    if metric == FILTER_GROUPS_REWARD_METRIC:
        return float(value.sum())
    reported = getattr(value, "data", value)["reward_extra_info"]
    if metric not in reported:
        raise RuntimeError(
            f"algorithm.filter_groups.metric: {metric} is none of what episodes report: {', '.join(reported)}"
        )
    return float(reported[metric])
