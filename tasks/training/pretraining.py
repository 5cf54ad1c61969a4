"""Plain language-model training of a policy made from scratch, by transformers' Trainer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, get_cosine_schedule_with_warmup
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from tasks.params import Pretraining
from tasks.training.muon import Muon

_WARMUP_STEPS = 30


def packed(
    documents: Iterator[str], tokenizer: PreTrainedTokenizerBase, batches: int, rows: int, length: int
) -> list[torch.Tensor]:
    """Documents, each closed by the end token, cut into batches without padding.

    Returns:
        `batches` tensors of token ids of shape (rows, length); a document may be cut between rows.
    """
    ids: list[int] = []
    wanted = batches * rows * length
    while len(ids) < wanted:
        encoded = tokenizer(list(islice(documents, 1000)), add_special_tokens=False)["input_ids"]
        for document in encoded:
            ids += [*document, tokenizer.eos_token_id]
    return list(torch.tensor(ids[:wanted]).view(batches, rows, length))


class Batches(Dataset):
    """Ready batches, whatever their shapes: an item is a batch, taken in order."""

    def __init__(self, batches: Sequence[torch.Tensor]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        batch = self._batches[index]
        return {"input_ids": batch, "labels": batch}


def _only(items: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    (item,) = items
    return item


class _Progress(TrainerCallback):
    def __init__(self, say: Callable[[str], None], record: Callable[[int, float], None]) -> None:
        self._say, self._record = say, record

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self._say(f"pre-training step {state.global_step}/{state.max_steps}, loss {float(logs['loss']):.3f}")
            self._record(state.global_step, float(logs["loss"]))


def pretrain(
    model: PreTrainedModel,
    batches: Sequence[torch.Tensor],
    settings: Pretraining,
    seed: int,
    say: Callable[[str], None],
    record: Callable[[int, float], None],
) -> float:
    """Train on all tokens of every batch once, in order, with warm-up and a cosine schedule.

    Args:
        batches: token ids, each of shape (rows, length).
        record: called with a step and the mean loss since the last call, in nats a token.

    Returns:
        the mean loss of the last steps, about a tenth of them, in nats a token.
    """
    optimizer = Muon(
        model, lr=settings.learning_rate, muon_lr=settings.muon_learning_rate, weight_decay=settings.weight_decay
    )
    schedule = get_cosine_schedule_with_warmup(optimizer, min(_WARMUP_STEPS, len(batches) // 4), len(batches))
    losses: list[float] = []

    def log(step: int, loss: float) -> None:
        losses.append(loss)
        record(step, loss)

    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            max_steps=len(batches),
            per_device_train_batch_size=1,
            train_sampling_strategy="sequential",
            logging_steps=max(1, len(batches) // 10),
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=seed,
            data_seed=seed,
            dataloader_pin_memory=False,
        )
        arguments._n_gpu = min(1, arguments.n_gpu)  # Trainer would spread an item, which is a batch, over all GPUs
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=Batches(batches),
            data_collator=_only,
            callbacks=[_Progress(say, log)],
            optimizers=(optimizer, schedule),
        )
        trainer.remove_callback(
            next(c for c in trainer.callback_handler.callbacks if type(c).__name__ == "PrinterCallback")
        )
        trainer.train()
    return losses[-1]
