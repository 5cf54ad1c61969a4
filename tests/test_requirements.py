"""The locks: what setup installs is all there is, so they must fit the project and each other."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = sorted((ROOT / "requirements").glob("*-py*.txt"))


def pins(lock: Path) -> dict[str, str]:
    lines = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^ ]+", line) for line in lines)
    found = dict(line.split("==") for line in lines)
    assert len(found) == len(lines)
    return found


def test_there_is_a_lock_for_each_machine():
    assert [lock.stem for lock in LOCKS] == ["cpu-py311", "gpu-py311", "gpu-py312"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_lock_holds_what_the_project_asks_for(lock):
    extras = PROJECT["optional-dependencies"]
    machine = lock.stem.split("-")[0]
    wanted = PROJECT["dependencies"] + [one for name in ("dev", "minilm", "qdrant", machine) for one in extras[name]]
    have = pins(lock)
    for requirement in map(Requirement, wanted):
        version = have[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} against {version}"


def test_no_cuda_in_the_cpu_environment():
    have = pins(ROOT / "requirements/cpu-py311.txt")
    assert have["torch"].endswith("+cpu")
    cuda = ("nvidia", "cuda", "cupy", "triton", "flashinfer", "torchvision", "torchaudio", "torchcodec")
    assert not [name for name in have if name.startswith(cuda)]
