"""verl's checkpoint to a Hugging Face folder, in the dtype that was trained, and proof that it is the same model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from verl.model_merger.base_model_merger import ModelMergerConfig
from verl.model_merger.fsdp_model_merger import FSDPModelMerger


@contextmanager
def _without_rounding() -> Iterator[None]:
    original = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = lambda self, *args, **kwargs: self
    try:
        yield
    finally:
        torch.Tensor.bfloat16 = original


class TrainingDtypeMerger(FSDPModelMerger):
    """verl's FSDP merger without its rounding.

    verl 0.9.1 casts every shard to bfloat16 (model_merger/fsdp_model_merger.py:187 and :199) and names that
    dtype in the config (base_model_merger.py:414), whatever was trained.
    """

    def _load_and_merge_state_dicts(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        with _without_rounding():
            state = super()._load_and_merge_state_dicts(*args, **kwargs)
        self._dtype = next(iter(state.values())).dtype
        return state

    def patch_model_generation_config(self, model: PreTrainedModel) -> PreTrainedModel:
        # save_pretrained writes the dtype of the (empty) model into config.json.
        return super().patch_model_generation_config(model.to(self._dtype))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The checkpoint's full weights as they were trained, by name."""
        world_size = self._get_world_size()
        mesh, names = self._extract_device_mesh_info(self._load_rank_zero_state_dict(world_size), world_size)
        shards, shape = self._calculate_shard_configuration(mesh, names)
        return self._load_and_merge_state_dicts(world_size, shards, shape, names)


def _merger(checkpoint: Path, target: Path) -> TrainingDtypeMerger:
    config = ModelMergerConfig(
        operation="merge",
        backend="fsdp",
        local_dir=str(checkpoint),
        target_dir=str(target),
        hf_model_config_path=str(checkpoint / "huggingface"),
    )
    return TrainingDtypeMerger(config)


def merge(checkpoint: Path, target: Path) -> str:
    """Merge verl's FSDP shards into a Hugging Face folder with safetensors; returns the dtype written.

    Args:
        checkpoint: folder with `model_world_size_*_rank_*.pt` and `huggingface/`.
        target: folder to write.
    """
    _merger(checkpoint, target).merge_and_save()
    return str(AutoConfig.from_pretrained(target).dtype).removeprefix("torch.")


def trained_model(checkpoint: Path) -> PreTrainedModel:
    """The training checkpoint as a model in memory, straight from its shards."""
    config = AutoConfig.from_pretrained(checkpoint / "huggingface")
    state = _merger(checkpoint, checkpoint).state_dict()
    dtype = next(iter(state.values())).dtype
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    # A tied output embedding may be left out of the shards: it is the input embedding.
    missing, unexpected = model.load_state_dict(state, strict=False)
    model.tie_weights()
    if unexpected or any("lm_head" not in name for name in missing):
        raise ValueError(f"checkpoint and config disagree: missing {missing}, unexpected {unexpected}")
    return model.eval()


def saved_model(folder: Path) -> PreTrainedModel:
    """A merged model as anybody would load it."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype="auto", attn_implementation="sdpa", use_safetensors=True
    ).eval()


def max_logit_diff(one: PreTrainedModel, other: PreTrainedModel, inputs: Sequence[Sequence[int]]) -> float:
    """Largest absolute difference of two models' logits over token id sequences, each of shape (n,)."""
    largest = 0.0
    with torch.no_grad():
        for ids in inputs:
            batch = torch.tensor([list(ids)])
            difference = one(input_ids=batch).logits.float() - other(input_ids=batch).logits.float()
            largest = max(largest, float(difference.abs().max()))
    return largest
