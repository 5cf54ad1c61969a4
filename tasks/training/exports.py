"""verl's Hugging Face exports, made to say what they hold."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def set_dtype(folder: Path, dtype: str) -> None:
    """Give an export the dtype that was trained: in its config and, where they differ, in its weights.

    verl 0.9.1 builds the exported model in bfloat16 (utils/checkpoint/fsdp_checkpoint_manager.py:446), so
    config.json names that dtype whatever the weights are; loaders that trust it, vLLM among them, then
    round float32 weights without a word.

    Args:
        folder: an export with config.json and safetensors files.
        dtype: `float32` or `bfloat16`.
    """
    wanted = getattr(torch, dtype)
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        if any(tensor.dtype != wanted for tensor in tensors.values()):
            aside = path.with_suffix(".partial")
            save_file({name: tensor.to(wanted) for name, tensor in tensors.items()}, aside, metadata={"format": "pt"})
            os.replace(aside, path)
    config = folder / "config.json"
    content = json.loads(config.read_text(encoding="utf-8")) | {"dtype": dtype}
    aside = config.with_suffix(".partial")
    aside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(aside, config)
