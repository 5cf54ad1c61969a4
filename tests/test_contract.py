"""What every stage keeps to, shown by a stage that is run as a child process."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tasks import tracking
from tasks.contract import SECTIONS, UPSTREAM, _alone
from tasks.errors import InputError
from tasks.files import write_json

ROOT = Path(__file__).parents[1]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def test_every_stage_is_in_dvc_yaml():
    assert set(STAGES) == {"params", *SECTIONS} == {"params", *UPSTREAM}
    for name in SECTIONS:
        assert STAGES[name]["cmd"] == f"python -m tasks.{name}"
        assert f"data/{name}" in str(STAGES[name]["outs"])
        assert f"metrics/{name}.json" in str(STAGES[name]["metrics"])


@pytest.mark.parametrize("name", SECTIONS)
def test_stage_reads_what_dvc_yaml_says(name):
    stage = STAGES[name]
    upstream = {path.split("/")[1] for path in stage["deps"] if path.startswith("data/")} - {"sources", "audits"}
    assert upstream == set(UPSTREAM[name])
    keys = {key.split(".")[0] for entry in stage["params"] for group in entry.values() for key in group}
    assert keys == set(SECTIONS[name])


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "tasks").rglob("*.py")
}
# Packages whose modules are found by name.
BY_NAME = ("tasks.agent.environments", "tasks.agent.interactions", "tasks.agent.tools")
# What every stage stands on: a change here does not make the results of all stages stale.
SHARED = {
    f"tasks.{name}"
    for name in (
        "contract",
        "errors",
        "files",
        "params",
        "params.judging",
        "params.searching",
        "processes",
        "quiet",
        "sections",
        "servers",
        "tracking",
    )
}
# These never play an episode: what an environment or a tool imports to play is not called.
NEVER_PLAY = {"params", "ingest", "policy", "validate", "index"}


def running(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, in functions as well, less what only a type checker sees."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from running(child)


def used_by(module: str) -> set[str]:
    """Modules of the project that a module imports, or hands over by name or by file."""
    path, found = MODULES[module], set()
    for node in running(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"tasks(\.\w+)+", node.value):
                found |= {node.value, node.value.rpartition(".")[0]}
            elif (file := path.parent / node.value).suffix == ".py":
                found |= {name for name, other in MODULES.items() if other == file}
    if module in BY_NAME:  # imports what the parameters name
        found |= {name for name in MODULES if name.startswith(f"{module}.")}
    return found & set(MODULES)


def code_of(stage: str) -> set[str]:
    """Modules that a stage uses, by way of others as well, less what all stages share."""
    found, waiting = set(), {f"tasks.{stage}", f"tasks.{stage}.__main__"} & set(MODULES)
    while waiting:
        module = waiting.pop()
        found.add(module)
        if stage in NEVER_PLAY and module.startswith(tuple(f"{package}." for package in BY_NAME)):
            continue
        waiting |= {used for used in used_by(module) if used not in found and used not in SHARED}
    return found


def says_more_than_a_docstring(module: str) -> bool:
    return not all(isinstance(statement, ast.Expr) for statement in ast.parse(MODULES[module].read_text()).body)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_the_code_it_uses(name):
    deps = [ROOT / path for path in STAGES[name]["deps"]]
    assert all(path.exists() for path in deps if path.is_relative_to(ROOT / "tasks"))
    files = {MODULES[module] for module in code_of(name) if says_more_than_a_docstring(module)}
    assert not {str(path.relative_to(ROOT)) for path in files if not any(path.is_relative_to(dep) for dep in deps)}


def test_code_that_is_handed_to_verl_or_imported_late_is_found():
    training = {f"tasks.training.{name}" for name in ("replay_buffer", "vllm_worker", "cpu_platform")}
    bm25 = "tasks.retrieval.engines.bm25"
    assert {*training, "tasks.agent.verl_loop", bm25} <= code_of("rl")
    assert {"tasks.training.sft_dataset", "tasks.evaluation.vllm_engine", bm25} <= code_of("sft")
    assert bm25 in code_of("demos") & code_of("evaluate")
    assert "tasks.agent.environments.search.environment" in code_of("ingest")


PROGRAM = """
import sys, time
from pathlib import Path
from tasks import contract
from tasks.errors import CrashError, InputError

def run(stage):
    (stage.out / "half").write_text("half")
    mode = Path("mode").read_text()
    stage.say(mode)
    if mode == "wrong":
        raise InputError("broken", where="row 3", mend="mend it")
    if mode == "crash":
        raise RuntimeError("boom")
    if mode == "server":
        raise CrashError("the server ended with status 1")
    if mode == "hang":
        time.sleep(60)
    return {"n": 3, "nested": {"x": 0.5}}

contract.main("merge", run)
"""


@pytest.fixture
def stage(workspace):
    (workspace / "program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "-m", "tasks.params"], check=True, capture_output=True)

    def start(mode):
        (workspace / "mode").write_text(mode)
        return subprocess.Popen(
            [sys.executable, "program.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def statuses():
    found = tracking.connect().search_runs(order_by=["start_time ASC"], output_format="list")
    return [run.info.status for run in found]


def test_ends_of_a_stage(workspace, stage):
    child = stage("crash")
    _, errors = child.communicate()
    assert child.returncode == 1
    assert "RuntimeError: boom" in errors
    assert [path.name for path in (workspace / "data").iterdir()] == ["params"]
    assert not (workspace / "metrics").exists()

    child = stage("good")
    _, errors = child.communicate()
    assert child.returncode == 0, errors
    assert json.loads((workspace / "data/merge/figures.json").read_text()) == {"n": 3, "nested": {"x": 0.5}}
    run_id = json.loads((workspace / "metrics/merge.json").read_text())["run_id"]
    assert tracking.connect().get_run(run_id).data.metrics == {"n": 3.0, "nested.x": 0.5}

    child = stage("wrong")
    _, errors = child.communicate()
    assert child.returncode == 2
    assert errors == "merge: error: row 3: broken; mend it\n"

    child = stage("server")
    _, errors = child.communicate()
    assert (child.returncode, errors) == (1, "merge: error: the server ended with status 1\n")

    child = stage("hang")
    assert "hang" in child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 143

    assert statuses() == ["FAILED", "FINISHED", "FAILED", "FAILED", "FAILED"]
    # The good outputs stay whole, and nothing half-written is left.
    assert sorted(path.name for path in (workspace / "data").iterdir()) == ["merge", "params"]
    assert (workspace / "data/merge/figures.json").exists()


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_second_stage_is_refused_while_one_is_at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hold = (
        "import time; from tasks.contract import _alone\nwith _alone('rl'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=rf"stage rl is at work in this folder \(pid {holder.pid}\)"), _alone("gate"):
        pass
    holder.kill()
    holder.wait()
    with _alone("gate"):
        assert (tmp_path / ".forager/stage.lock").read_text() == f"{os.getpid()} {os.getppid()} gate"


def test_resumable_state_is_filed_under_the_code_and_not_under_what_is_compiled_from_it(workspace, make_stage):
    room = workspace / "tasks/retrieval"
    (room / "__pycache__").mkdir(parents=True)
    code = room / "bm25_kernel.py"
    code.write_text("a = 1")
    (workspace / "dvc.yaml").write_text(json.dumps({"stages": {"rl": {"deps": ["tasks/retrieval", "data/index"]}}}))
    stage = make_stage("rl")
    before = stage.fingerprint()
    # What numba leaves beside Python's own: a run that compiles something must be found again after a kill.
    for name in ("bm25_kernel.rank-71.py311.nbi", "bm25_kernel.rank-71.py311.1.nbc", "bm25_kernel.cpython-311.pyc"):
        (room / "__pycache__" / name).write_bytes(b"compiled")
    assert stage.fingerprint() == before
    code.write_text("a = 2")
    assert stage.fingerprint() != before
