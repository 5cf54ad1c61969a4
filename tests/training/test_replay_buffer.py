"""A step with nothing to train on, in verl's own replay buffer class with its queue stubbed."""

from types import SimpleNamespace

import pytest
import torch
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from tasks.training import replay_buffer
from tasks.training.replay_buffer import PromptReplayBuffer


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch):
    def run(partition: str, *masks: list[int]):
        batch = SimpleNamespace(keys=[str(n) for n in range(len(masks))])
        nested = torch.nested.as_nested_tensor([torch.tensor(mask) for mask in masks], layout=torch.jagged)
        monkeypatch.setattr(ReplayBuffer, "sample", lambda *args: (batch, {"of": "verl"}))
        monkeypatch.setattr(replay_buffer.tq, "kv_batch_get", lambda **asked: {"response_mask": nested})
        return PromptReplayBuffer.sample(object.__new__(PromptReplayBuffer), 7, partition, len(masks)), batch

    return run


def test_a_step_of_which_all_is_kept_out_of_the_loss_ends_with_a_line_that_says_so(sample) -> None:
    with pytest.raises(RuntimeError, match=r"step 7: every trajectory is kept out of the loss.*rl.no_loss_on"):
        sample("train", [0, 0, 0], [0])


def test_one_token_is_enough_and_a_validation_trains_on_nothing(sample) -> None:
    for partition, masks in (("train", ([0, 0], [0, 1])), ("val", ([0], [0]))):
        found, batch = sample(partition, *masks)
        assert found == (batch, {"of": "verl"})
