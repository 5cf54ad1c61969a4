"""What the machine has, and the environment that verl, vLLM and Ray need on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path


def has_gpu() -> bool:
    """Whether torch sees an accelerator."""
    import torch

    return torch.cuda.is_available()


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0))


def engine_environment(cache: Path = Path(".forager/cache")) -> Mapping[str, str]:
    """Variables for child processes that run verl, vLLM or Ray; what the user has set wins.

    The project's root is put on PYTHONPATH, since Ray's workers start in another folder, and the project's modules for
    verl before those of the user: the platform first, since the others ask for the device.
    """
    variables = {
        "PYTHONPATH": _before_the_users("PYTHONPATH", str(Path.cwd()), between=os.pathsep),
        "VERL_USE_EXTERNAL_MODULES": _before_the_users(
            "VERL_USE_EXTERNAL_MODULES", "tasks.training.cpu_platform", "tasks.training.verl_extensions", between=","
        ),
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",
        "HF_DATASETS_CACHE": str(cache.absolute() / "datasets"),
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_ADDRESS": "local",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    if not has_gpu():
        threads = str(cores())
        variables |= {
            "VERL_PLATFORM": "cpu",
            "TORCHDYNAMO_DISABLE": "1",
            "OMP_NUM_THREADS": threads,
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        }
    ours = ("PYTHONPATH", "VERL_USE_EXTERNAL_MODULES")
    return {key: value for key, value in variables.items() if key in ours or key not in os.environ}


def _before_the_users(variable: str, *own: str, between: str) -> str:
    return between.join([*own, *filter(None, [os.environ.get(variable)])])


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder for one run of verl; what a killed run of this workspace has left goes first.

    Its path is short, as Ray's sockets need it, and `python_in(scratch)` is this interpreter under a name without
    spaces: Ray 2.60.0 (_private/runtime_env/context.py, exec_worker) pastes its workers' interpreter into a shell
    command without quotes, and a clone may lie anywhere.
    """
    prefix = f"forager-{zlib.crc32(str(Path.cwd()).encode()):08x}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        (Path(folder) / "venv").symlink_to(sys.prefix)
        yield Path(folder)


def python_in(scratch: Path) -> str:
    """This interpreter by its name in a scratch folder."""
    return str(scratch / "venv" / "bin" / Path(sys.executable).name)
