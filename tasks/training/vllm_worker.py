"""vLLM worker extension for the CPU: linear weights stay as they are, so that new ones can be loaded every step."""

from __future__ import annotations

from typing import Any

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


class CpuWorkerExtension(vLLMColocateWorkerExtension):
    """Turns off oneDNN's prepacking before the model is loaded.

    vllm 0.27.1, model_executor/layers/utils.py replaces `layer.weight` by an empty parameter when it packs;
    the next load of weights then fails behind a misleading BufferError and the run hangs.
    """

    def __new__(cls, **kwargs: Any) -> CpuWorkerExtension:
        import vllm._custom_ops

        vllm._custom_ops._supports_onednn = False
        return super().__new__(cls, **kwargs)
