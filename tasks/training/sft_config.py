"""verl's configuration for the SFT trainer, from our parameters (verl/trainer/config/sft_trainer_engine.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.params import Episode, Sft
from tasks.training.overrides import hydra_overrides

HERE = Path(__file__).parent


@dataclass(frozen=True)
class SftRun:
    """What verl's SFT trainer is asked for.

    Attributes:
        learning_rate: the highest, after the warm-up.
        batch_size: rows of an optimizer step.
        steps: how many.
        check_every: steps between evaluation losses, and between checkpoints.
        dataset: class of sft_dataset.py that reads the rows.
        verl: the user's own settings; they come last and win.
    """

    learning_rate: float
    batch_size: int
    steps: int
    check_every: int
    dataset: str
    verl: Mapping[str, Any] = field(default_factory=dict)


def sft_overrides(sft: Sft, episode: Episode, **run: Any) -> list[str]:
    """Hydra overrides for the warm-up on demonstrations, see `trainer_overrides`; `sft.verl` comes last and wins."""
    asked = SftRun(sft.learning_rate, sft.batch_size, sft.max_steps, sft.check_every, "DemonstrationDataset", sft.verl)
    return trainer_overrides(asked, episode, **run)


def trainer_overrides(
    asked: SftRun,
    episode: Episode,
    *,
    model: Path,
    train: Path,
    validation: Path,
    checkpoints: Path,
    seed: int,
    dtype: str,
    gpu: bool,
) -> list[str]:
    """Hydra overrides for `verl.trainer.sft_trainer`.

    A checkpoint every `check_every` steps, and of the last one, holds the weights in Hugging Face's form, in the
    training dtype: what the sampled checks load, and what the stage hands on.
    """
    precision = {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    settings: dict[str, object] = {
        "data.train_files": train,
        "data.val_files": validation,
        "data.train_batch_size": asked.batch_size,
        "data.micro_batch_size_per_gpu": asked.batch_size,
        "data.use_dynamic_bsz": False,
        "data.max_length": episode.max_prompt_tokens + episode.max_response_tokens,
        "data.num_workers": 0,
        "data.custom_cls.path": HERE / "sft_dataset.py",
        "data.custom_cls.name": asked.dataset,
        "model.path": model,
        "model.use_remove_padding": gpu,
        "+model.override_config.attn_implementation": "sdpa",
        "model.enable_gradient_checkpointing": gpu,
        "engine.strategy": "fsdp2",
        "engine.seed": seed,
        "engine.use_torch_compile": False,
        "+engine.mixed_precision.param_dtype": precision,
        "+engine.mixed_precision.reduce_dtype": "fp32",
        "+engine.mixed_precision.buffer_dtype": "fp32",
        "optim.lr": asked.learning_rate,
        "optim.lr_scheduler_type": "cosine",
        "optim.lr_warmup_steps_ratio": 0.1,
        "checkpoint.save_contents": "[model,optimizer,extra,hf_model]",
        "trainer.logger": "[console,file]",
        "trainer.n_gpus_per_node": 1,
        "trainer.total_training_steps": asked.steps,
        "trainer.total_epochs": 1_000_000,  # the number of steps decides
        "trainer.save_freq": asked.check_every,
        "trainer.test_freq": asked.check_every,
        "trainer.default_local_dir": checkpoints,
        "trainer.resume_mode": "auto",
    }
    if not gpu:
        settings["trainer.device"] = "cpu"
    return hydra_overrides(settings, asked.verl)
