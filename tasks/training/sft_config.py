"""verl's configuration for the SFT trainer, from our parameters (verl/trainer/config/sft_trainer_engine.yaml)."""

from __future__ import annotations

from pathlib import Path

from tasks.params import Episode, Sft
from tasks.training.overrides import hydra_overrides

HERE = Path(__file__).parent


def sft_overrides(
    sft: Sft,
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
    """Hydra overrides for `verl.trainer.sft_trainer`; `sft.verl` comes last and wins.

    A checkpoint every `check_every` steps holds the weights in Hugging Face's form, in the training dtype:
    what the sampled checks load, and what the stage hands on.
    """
    precision = {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    settings: dict[str, object] = {
        "data.train_files": train,
        "data.val_files": validation,
        "data.train_batch_size": sft.batch_size,
        "data.micro_batch_size_per_gpu": sft.batch_size,
        "data.use_dynamic_bsz": False,
        "data.max_length": episode.max_prompt_tokens + episode.max_response_tokens,
        "data.num_workers": 0,
        "data.custom_cls.path": HERE / "sft_dataset.py",
        "data.custom_cls.name": "DemonstrationDataset",
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
        "optim.lr": sft.learning_rate,
        "optim.lr_scheduler_type": "cosine",
        "optim.lr_warmup_steps_ratio": 0.1,
        "checkpoint.save_contents": "[model,optimizer,extra,hf_model]",
        "trainer.logger": "[console,file]",
        "trainer.n_gpus_per_node": 1,
        "trainer.total_training_steps": sft.max_steps,
        "trainer.total_epochs": 1_000_000,  # the number of steps decides
        "trainer.save_freq": sft.check_every,
        "trainer.test_freq": sft.check_every,
        "trainer.default_local_dir": checkpoints,
        "trainer.resume_mode": "auto",
    }
    if not gpu:
        settings["trainer.device"] = "cpu"
    return hydra_overrides(settings, sft.verl)
