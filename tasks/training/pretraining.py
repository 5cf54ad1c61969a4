"""Plain language-model training of a policy made from scratch, by transformers' Trainer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from tasks.params import Pretraining


class PackedText(Dataset):
    """Documents, each closed by the end token, cut into rows of equal length: `input_ids` of shape (length,)."""

    def __init__(self, documents: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int) -> None:
        ids: list[int] = []
        for document in documents:
            ids += [*tokenizer.encode(document, add_special_tokens=False), tokenizer.eos_token_id]
        rows = len(ids) // length
        self._rows = torch.tensor(ids[: rows * length]).view(rows, length)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = self._rows[index]
        return {"input_ids": row, "labels": row}


class _Progress(TrainerCallback):
    def __init__(self, say: Callable[[str], None], record: Callable[[int, float], None]) -> None:
        self._say, self._record = say, record

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self._say(f"pre-training step {state.global_step}/{state.max_steps}, loss {float(logs['loss']):.3f}")
            self._record(state.global_step, float(logs["loss"]))


def pretrain(
    model: PreTrainedModel,
    dataset: PackedText,
    settings: Pretraining,
    seed: int,
    say: Callable[[str], None],
    record: Callable[[int, float], None],
) -> float:
    """Train on all tokens with a cosine schedule; returns the mean training loss in nats a token."""
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            max_steps=settings.steps,
            per_device_train_batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=min(50, settings.steps // 10),
            adam_beta2=0.95,
            weight_decay=0.01,
            logging_steps=max(1, settings.steps // 10),
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=seed,
            data_seed=seed,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=dataset, callbacks=[_Progress(say, record)])
        trainer.remove_callback(
            next(c for c in trainer.callback_handler.callbacks if type(c).__name__ == "PrinterCallback")
        )
        return float(trainer.train().training_loss)
