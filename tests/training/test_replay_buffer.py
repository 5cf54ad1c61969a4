"""Which groups are trained on: verl's own buffer class under ours, over a queue in memory whose episodes have ended."""

from collections import Counter
from statistics import pstdev
from types import SimpleNamespace

import pytest
import torch
import transfer_queue
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from tasks.params import groups_to_generate
from tasks.training.replay_buffer import PromptReplayBuffer

RIGHT, WRONG = (1.0, 1.0), (0.0, 0.0)
MIXED = (0.0, 1.0)


class Queue:
    """What the buffer sees of verl's TransferQueue: keys with tags in the order in which they came, and their fields.

    Args:
        groups: rewards of the rollouts of each question of the data, in order; an empty group has failed.
        masks: response masks, where they are not all 1.
    """

    def __init__(self, groups, success=None, masks=None):
        self.groups, self.success, self.masks = list(groups), success or {}, masks or {}
        self.tags: dict[str, dict] = {}
        self.submitted = 0

    def submit(self, count: int) -> int:
        """As the trainer's refill: the next questions, which end at once."""
        for _ in range(count):
            uid = f"u{self.submitted}"
            rewards = self.groups[self.submitted % len(self.groups)]
            self.submitted += 1
            status = "finished" if rewards else "failure"
            self.tags[uid] = {"is_prompt": True, "status": status, "global_steps": 3}
            self.tags |= {f"{uid}_{n}_0": {"status": "success"} for n in range(len(rewards))}
        return count

    def rewards(self, key: str) -> float:
        uid, sample, _ = key.split("_")
        return self.groups[int(uid[1:]) % len(self.groups)][int(sample)]

    def kv_list(self):
        return {"train": dict(self.tags)}

    def kv_clear(self, *, keys, partition_id):
        for key in keys:
            del self.tags[key]

    def kv_batch_get(self, *, keys, partition_id, select_fields):
        (field,) = select_fields
        of = {
            # As verl lays it: the reward on the last token.
            "rm_scores": lambda key: torch.tensor([0.0, self.rewards(key)]),
            "extra_fields": lambda key: SimpleNamespace(
                data={"reward_extra_info": {"success": self.success.get(key, self.rewards(key)), "em": 0.0}}
            ),
            "response_mask": lambda key: torch.tensor(self.masks.get(key, [1, 1])),
        }[field]
        found = [of(key) for key in keys]
        return {
            field: torch.nested.as_nested_tensor(found, layout=torch.jagged) if torch.is_tensor(found[0]) else found
        }


@pytest.fixture
def buffer(monkeypatch: pytest.MonkeyPatch):
    return lambda queue, **kwargs: over(monkeypatch, queue, **kwargs)


def over(patch: pytest.MonkeyPatch, queue: Queue, *, metric=None, max_batches=10, keep=None, cls=PromptReplayBuffer):
    for name in ("kv_list", "kv_clear", "kv_batch_get"):
        patch.setattr(transfer_queue, name, getattr(queue, name))
    # What the trainer hands a custom sampler: verl/trainer/ppo/v1/trainer_base.py:155.
    section = {"enable": metric is not None, "metric": metric, "max_num_gen_batches": max_batches}
    kwargs = {"filter_groups": section} | ({} if keep is None else {"keep_groups": keep})
    made = cls(
        trainer_mode="sync",
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs=OmegaConf.create(kwargs),
        refill_fn=queue.submit,
    )
    monkeyed = made._wait_for_next_poll

    def never_waits(*args):
        monkeyed(*args)  # which raises where nothing runs any more
        raise AssertionError("everything has ended, and still it waits")

    made._wait_for_next_poll = never_waits
    return made


def drawn(queue: Queue, made: PromptReplayBuffer, prompts: int):
    """A step as the trainer takes it: a batch of questions, then the sample."""
    queue.submit(prompts)
    batch, metrics = made.sample(3, "train", prompts)
    return list(dict.fromkeys(key.split("_")[0] for key in batch.keys)), metrics


def test_without_a_filter_the_batch_is_what_was_submitted(buffer) -> None:
    queue = Queue([RIGHT, MIXED, WRONG])
    assert drawn(queue, buffer(queue), 3) == (["u0", "u1", "u2"], {})
    assert queue.submitted == 3


def test_groups_that_are_all_right_or_all_wrong_are_replaced_and_counted(buffer) -> None:
    queue = Queue([RIGHT, MIXED, WRONG, MIXED, RIGHT, MIXED, MIXED, MIXED])
    uids, metrics = drawn(queue, buffer(queue, metric="success"), 3)
    # u0 and u2 go, verl fetches twice as many but runs a batch at a time: u3 to u5, u4 goes, and the batch is full.
    assert uids == ["u1", "u3", "u5"]
    assert metrics == {
        "training/filter_groups/evicted_samples": 3,
        "training/filter_groups/discarded_surplus_samples": queue.submitted - 6,
        "training/filter_groups/generated_groups": queue.submitted,
        "training/filter_groups/generations_per_batch": queue.submitted / 3,
        "_dapo_filtered_reward_counts": {1.0: 2, 0.0: 1},
    }
    assert not any(tag.get("is_prompt") for tag in queue.tags.values())


def test_figures_of_a_step_that_throws_nothing_away_are_there_and_0(buffer) -> None:
    queue = Queue([MIXED])
    _, metrics = drawn(queue, buffer(queue, metric="success"), 2)
    assert metrics["training/filter_groups/evicted_samples"] == 0
    assert metrics["training/filter_groups/discarded_surplus_samples"] == 0
    assert metrics["training/filter_groups/generations_per_batch"] == 1


def test_it_is_the_named_metric_that_counts_and_not_the_shaped_reward(buffer) -> None:
    # Two wrong answers, one of them in form: rewards differ, successes do not.
    queue = Queue([(0.0, 0.1), MIXED], success={"u0_0_0": 0.0, "u0_1_0": 0.0})
    assert drawn(queue, buffer(queue, metric="success"), 1)[0] == ["u1"]
    queue = Queue([(0.0, 0.1), MIXED], success={"u0_0_0": 0.0, "u0_1_0": 0.0})
    assert drawn(queue, buffer(queue, metric="reward"), 1)[0] == ["u0"]


def test_a_metric_that_no_episode_reports_is_named(buffer) -> None:
    queue = Queue([MIXED])
    with pytest.raises(RuntimeError, match=r"filter_groups.metric: acc is none of what episodes report: success, em"):
        drawn(queue, buffer(queue, metric="acc"), 1)


def test_three_equal_rewards_of_a_tenth_are_equal_which_verl_denies(buffer) -> None:
    class Verls(ReplayBuffer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs, filter_groups_metric="success", train_batch_size=1, gen_batch_size=1)

    tenths = Queue([(0.1, 0.1, 0.1), (0.1, 0.2, 0.1)])
    assert drawn(tenths, buffer(tenths, metric="success"), 1)[0] == ["u1"]
    # The day that verl gets it right, `_dapo_filtered_keys` of ours can go.
    tenths = Queue([(0.1, 0.1, 0.1), (0.1, 0.2, 0.1)])
    assert drawn(tenths, buffer(tenths, cls=Verls), 1)[0] == ["u0"]


def test_a_rollout_without_loss_counts_in_its_group(buffer) -> None:
    queue = Queue([MIXED], masks={"u0_0_0": [0, 0]})
    assert drawn(queue, buffer(queue, metric="success"), 1)[0] == ["u0"]


def test_a_group_whose_episodes_failed_is_replaced(buffer) -> None:
    queue = Queue([(), MIXED])
    uids, metrics = drawn(queue, buffer(queue, metric="success"), 1)
    assert uids == ["u1"]
    assert metrics["training/rollout_failure/evicted_samples"] == 1


@pytest.mark.parametrize(("groups", "told"), [([WRONG], "20 all at 0"), ([WRONG, RIGHT], "10 all at 0, 10 all at 1")])
def test_it_ends_after_so_many_batches_with_what_it_saw_and_what_to_do(buffer, groups, told) -> None:
    queue = Queue(groups)
    message = rf"step 3: of 20 groups only 0 have rollouts of different success, and a batch needs 4 \({told}\)\. Take"
    with pytest.raises(RuntimeError, match=message):
        drawn(queue, buffer(queue, metric="success", max_batches=5), 4)
    assert queue.submitted == 20


def test_a_filter_without_a_bound_is_refused(buffer) -> None:
    with pytest.raises(ValueError, match=r"rl\.dynamic_sampling\.max_batches sets it"):
        buffer(Queue([MIXED]), metric="success", max_batches=0)


def test_a_second_step_counts_anew_and_goes_on_in_the_data(buffer) -> None:
    queue = Queue([WRONG, MIXED, MIXED, MIXED, MIXED, MIXED])
    made = buffer(queue, metric="success")
    _, first = drawn(queue, made, 2)
    start = queue.submitted
    uids, second = drawn(queue, made, 2)
    assert first["training/filter_groups/evicted_samples"] == 1
    assert uids[0] == f"u{start}"
    assert second["training/filter_groups/generated_groups"] == queue.submitted - start


def test_a_later_steps_line_counts_its_own_groups_alone(buffer) -> None:
    queue = Queue([WRONG, MIXED, MIXED, MIXED, *[RIGHT] * 4])
    made = buffer(queue, metric="success", max_batches=2)
    assert drawn(queue, made, 2)[0] == ["u1", "u2"]
    with pytest.raises(RuntimeError, match=r"of 4 groups only 0 .* \(4 all at 1\)"):
        drawn(queue, made, 2)


groups = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=2, max_size=4).map(tuple), min_size=1, max_size=12
)


@given(groups=groups, prompts=st.integers(1, 6), max_batches=st.integers(2, 5))
def test_batches_are_mixed_and_full_or_it_says_so_and_all_groups_are_accounted_for(
    groups, prompts: int, max_batches: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        queue = Queue(groups)
        made = over(patch, queue, metric="success", max_batches=max_batches)
        try:
            uids, metrics = drawn(queue, made, prompts)
        except RuntimeError:
            mixed = [n for n in range(queue.submitted) if len(set(groups[n % len(groups)])) > 1]
            assert queue.submitted == max_batches * prompts and len(mixed) < prompts
            return
    numbers = [int(uid[1:]) for uid in uids]
    mixed = [n for n in range(queue.submitted) if len(set(groups[n % len(groups)])) > 1]
    assert numbers == mixed[:prompts]  # where there are more than a batch, the first of the data
    evicted = metrics["training/filter_groups/evicted_samples"]
    surplus = metrics["training/filter_groups/discarded_surplus_samples"]
    assert metrics["training/filter_groups/generated_groups"] == queue.submitted == prompts + evicted + surplus
    assert queue.submitted <= max_batches * prompts


@pytest.mark.parametrize(("prompts", "keep", "generated"), [(16, 0.25, 64), (9, 0.3, 30), (5, 0.75, 7), (8, 1.0, 8)])
def test_as_many_groups_are_generated_as_make_a_batch(prompts: int, keep: float, generated: int) -> None:
    assert groups_to_generate(prompts, keep) == generated


def test_the_groups_that_deviate_most_are_kept_in_the_datas_order(buffer) -> None:
    # Deviations 0, .5, .05, .45: of 4 groups the half.
    queue = Queue([WRONG, MIXED, (0.0, 0.1), (0.1, 1.0)])
    uids, metrics = drawn(queue, buffer(queue, keep=0.5), 2)
    assert uids == ["u1", "u3"]
    assert metrics == pytest.approx(
        {
            "training/keep_groups/generated_groups": 4,
            "training/keep_groups/kept_std": 0.475,
            "training/keep_groups/dropped_std": 0.025,
        }
    )
    assert not any(key.startswith(("u0", "u2")) for key in queue.tags)


@given(groups=groups, prompts=st.integers(1, 6), keep=st.floats(0.1, 0.9))
def test_no_dropped_group_deviates_more_than_a_kept_one(groups, prompts: int, keep: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        queue = Queue(groups)
        uids, metrics = drawn(queue, over(patch, queue, keep=keep), prompts)
    numbers = [int(uid[1:]) for uid in uids]
    # As float32, in which verl keeps rewards.
    deviation = [pstdev(torch.tensor(groups[n % len(groups)]).tolist()) for n in range(queue.submitted)]
    dropped = [deviation[n] for n in range(queue.submitted) if n not in numbers]
    assert len(numbers) == prompts and numbers == sorted(numbers)
    assert queue.submitted == metrics["training/keep_groups/generated_groups"] == groups_to_generate(prompts, keep)
    assert min(deviation[n] for n in numbers) >= max(dropped)


def test_none_is_chosen_before_all_have_ended(buffer) -> None:
    queue = Queue([MIXED])
    made = buffer(queue, keep=0.5)
    running = queue.submit

    def one_still_runs(count: int) -> int:
        running(count)
        queue.tags["u1"]["status"] = "running"
        return count

    made._submit = one_still_runs
    with pytest.raises(AssertionError, match="still it waits"):
        drawn(queue, made, 1)


def test_a_step_of_which_all_is_kept_out_of_the_loss_ends_with_a_line_that_says_so(buffer) -> None:
    queue = Queue([MIXED], masks={"u0_0_0": [0, 0, 0], "u0_1_0": [0]})
    with pytest.raises(RuntimeError, match=r"step 3: every trajectory is kept out of the loss.*rl.no_loss_on"):
        drawn(queue, buffer(queue), 1)


def test_one_token_is_enough(buffer) -> None:
    queue = Queue([MIXED], masks={"u0_0_0": [0, 0], "u0_1_0": [0, 1]})
    assert drawn(queue, buffer(queue), 1)[0] == ["u0"]


def test_a_validation_is_neither_filtered_nor_asked_for_tokens_to_train_on(buffer, monkeypatch) -> None:
    queue = Queue([WRONG], masks={"u0_0_0": [0], "u0_1_0": [0]})
    made = buffer(queue, metric="success")
    queue.submit(1)
    monkeypatch.setattr(transfer_queue, "kv_list", lambda: {"val": dict(queue.tags)})
    batch, metrics = made.sample(3, "val", 1)
    assert Counter(batch.keys) == Counter(["u0_0_0", "u0_1_0"]) and metrics == {}
