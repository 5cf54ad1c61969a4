"""The critic's model where there is no flash-attention: on a CPU, and on a GPU without that package."""

from __future__ import annotations

from typing import Any

import torch
import verl.utils.model


def load_valuehead_model(
    local_path: str, torch_dtype: torch.dtype, model_config: Any, trust_remote_code: bool
) -> torch.nn.Module:
    """The policy's weights under a new head of one value a token.

    verl 0.9.1 (utils/model.py:645) asks for flash_attention_2, whatever `critic.model.override_config` says, and
    reports any failure of that as a missing trl. This takes the attention that the configuration names, as verl's actor
    does, and knows transformers' classes for token classification alone.

    Args:
        local_path: the policy's folder.
        torch_dtype: of the weights.
        model_config: transformers' configuration, with one label.
        trust_remote_code: as verl's key.
    """
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=model_config._attn_implementation,
        trust_remote_code=trust_remote_code,
    )


verl.utils.model.load_valuehead_model = load_valuehead_model
