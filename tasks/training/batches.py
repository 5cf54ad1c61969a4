"""The batches of an RL run as verl's configuration makes them: questions, rollouts, optimizer steps, micro-batches.

verl counts `data.train_batch_size` and `ppo_mini_batch_size` in questions, and multiplies both by `rollout.n`
(trainer/ppo/v1/trainer_base.py:1596, 1830); micro-batches are of rollouts, on one GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.errors import InputError
from tasks.params import Rl, groups_to_generate


@dataclass(frozen=True)
class Updates:
    """The optimizer steps of one network on one batch; sizes in rollouts.

    Attributes:
        size: of an optimizer step.
        passes: over the batch.
        micro: of a micro-batch on one GPU; None where `tokens` of it are the limit.
    """

    size: int
    passes: int
    micro: int | None
    tokens: int


@dataclass(frozen=True)
class Batches:
    """Sizes of a run; `questions` is None while they are not made, `critic` without one."""

    prompts: int
    samples: int
    steps: int
    gpus: int
    actor: Updates
    critic: Updates | None
    critic_warmup: int
    one_by_one: bool
    questions: int | None

    @classmethod
    def of(cls, verl: Mapping[str, Any], questions: int | None, *, critic: bool) -> Batches:
        """From verl's resolved configuration.

        Args:
            verl: the whole of it, plain values.
            questions: how many RL has; None: not known yet.
            critic: whether one is trained.
        """
        worker, trainer = verl["actor_rollout_ref"], verl["trainer"]
        samples = worker["rollout"]["n"]
        return cls(
            prompts=verl["data"]["train_batch_size"],
            samples=samples,
            steps=trainer["total_training_steps"],
            gpus=trainer["n_gpus_per_node"] * trainer["nnodes"],
            actor=_updates(worker["actor"], samples),
            critic=_updates(verl["critic"], samples) if critic else None,
            critic_warmup=trainer["critic_warmup"],
            # Then verl fetches question by question, and drops no last batch (trainer_base.py:732).
            one_by_one=verl["algorithm"]["filter_groups"]["enable"] or verl["data"].get("gen_batch_size") == 1,
            questions=questions,
        )

    @property
    def rollouts(self) -> int:
        """Rollouts that a step trains on."""
        return self.prompts * self.samples

    def check(self) -> None:
        """Refuse what does not divide.

        Raises:
            InputError: rollouts would be dropped or padded, or verl would stop, or wait for a batch for ever.
        """
        for network, updates in (("actor", self.actor), ("critic", self.critic)):
            if updates is not None:
                for fault in self._faults(updates):
                    raise InputError(f"{network}: {fault}", where="rl", mend="set rl.prompts, rl.samples or rl.updates")
        if self.questions is not None and self.questions < self.prompts:
            raise InputError(
                f"rl.prompts: {self.prompts} questions a step, and there are {self.questions}: verl drops what is no "
                "whole batch, and would never have one",
                mend="lower rl.prompts, or make more questions",
            )

    def _faults(self, updates: Updates) -> Iterator[str]:
        if self.rollouts % updates.size:
            yield f"optimizer steps of {updates.size} rollouts do not divide the {self.rollouts} of a step"
        if updates.size % self.gpus:
            yield f"{self.gpus} GPUs do not share {updates.size} rollouts of an optimizer step evenly"
        elif updates.micro is not None and updates.size // self.gpus % updates.micro:
            yield (
                f"micro-batches of {updates.micro} do not divide the {updates.size // self.gpus} rollouts of an "
                "optimizer step on a GPU"
            )

    def lines(self, rl: Rl) -> Iterator[str]:
        """The hierarchy in words.

        Args:
            rl: the section, which says how many more rollouts are generated than trained on.
        """
        questions, rollouts = _count(self.prompts, "question"), _count(self.samples, "rollout")
        yield f"{questions} x {rollouts} = {self.rollouts:,} rollouts a step -> {self._chain(self.actor)}"
        updates = _count(self.steps * self._optimizer_steps(self.actor), "optimizer step")
        yield f"{_count(self.steps, 'step')} = {updates}, {self.steps * self.rollouts:,} rollouts"
        yield from self._visits()
        if rl.dynamic_sampling is not None:
            most = self.prompts * rl.dynamic_sampling.max_batches
            yield (
                f"dynamic sampling: groups of equal {rl.dynamic_sampling.metric} are replaced, so a step plays "
                f"{self.prompts} to {most:,} questions; the visits above are the fewest"
            )
        if rl.keep_groups < 1:
            played = groups_to_generate(self.prompts, rl.keep_groups)
            yield f"kept groups: a step plays {played:,} questions, and keeps the {self.prompts} that deviate most"
        if self.critic is not None:
            # verl's steps begin with 1 (trainer_base.py:452)
            start = f"; the policy is trained from step {self.critic_warmup} on" if self.critic_warmup > 1 else ""
            yield f"critic: {self.rollouts:,} rollouts a step -> {self._chain(self.critic)}{start}"

    def _optimizer_steps(self, updates: Updates) -> int:
        return self.rollouts // updates.size * updates.passes

    def _chain(self, updates: Updates) -> str:
        steps = self._optimizer_steps(updates)
        passes = f" ({updates.passes} passes)" if updates.passes > 1 else ""
        on_each = f" on each of {self.gpus} GPUs" if self.gpus > 1 else ""
        text = f"{_count(steps, 'optimizer step')} of {updates.size}{passes} -> "
        if updates.micro is None:
            return f"{text}micro-batches of at most {updates.tokens:,} tokens{on_each}"
        micro = _count(updates.size // self.gpus // updates.micro, "micro-batch", "micro-batches")
        return f"{text}{micro} of {updates.micro}{' each' if steps > 1 else ''}{on_each}"

    def _visits(self) -> Iterator[str]:
        visits = self.steps * self.prompts
        if self.questions is None:
            yield f"{_count(visits, 'question visit')}; RL's questions are not made yet (data/demos/rl_train.parquet)"
            return
        epoch = self.questions if self.one_by_one else self.questions - self.questions % self.prompts
        least, more = divmod(visits, epoch)
        if least == 0:
            often = "each question at most once"
        elif more == 0:
            often = f"each question {_times(least)}"
        else:
            often = f"each question {least} or {least + 1} times"
        share = f"{visits / epoch:.0%}" if visits < epoch else f"{visits / epoch:.2f} epochs"
        of = f"{share.removesuffix('%')} % of an epoch" if share.endswith("%") else share
        yield f"{_count(visits, 'question visit')} of {_count(self.questions, 'question')}: {of}, {often}"
        if rest := self.questions - epoch:
            yield f"never played: the last {_count(rest, 'question')}, since verl drops what is no whole batch"


def _updates(network: Mapping[str, Any], samples: int) -> Updates:
    tokens = network.get("ppo_max_token_len_per_gpu") or 0
    micro = None if network["use_dynamic_bsz"] else network["ppo_micro_batch_size_per_gpu"]
    return Updates(network["ppo_mini_batch_size"] * samples, network["ppo_epochs"], micro, tokens)


def _count(number: int, one: str, more: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
