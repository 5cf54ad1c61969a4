"""verl's replay buffer: looks for finished rollouts more often, and hands on no step with nothing to train on."""

from __future__ import annotations

from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer


class PromptReplayBuffer(ReplayBuffer):
    """verl 0.9.1 polls every 2 s (trainer/ppo/v1/replay_buffer.py:144) and no key sets it; a tiny step takes less."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "poll_interval": 0.1})

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """As verl's, which a user may override.

        Raises:
            RuntimeError: no token of a training batch is to be trained on. verl would divide the loss by their number
                (trainer/ppo/core_algos.py:1175) and take the largest of no advantages (metric_utils.py:490).
        """
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        if partition_id == "train":
            fields = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=["response_mask"])
            if not any(bool(mask.any()) for mask in fields["response_mask"].unbind()):
                raise RuntimeError(
                    f"step {global_steps}: every trajectory is kept out of the loss. What cut them is in the rollouts' "
                    "stop_reason; mend that, or shorten rl.no_loss_on"
                )
        return batch, metrics
