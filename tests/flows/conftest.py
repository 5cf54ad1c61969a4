"""A real small DVC repository whose stages are trivial commands."""

import subprocess
import sys
from pathlib import Path

import pytest

STAGE = """
import json, subprocess, sys, time
from pathlib import Path
name = sys.argv[1]
out = Path("data") / name
out.mkdir(parents=True, exist_ok=True)
(out / "half").write_text("half")
mode = Path("knobs", name).read_text().strip()
print(f"{name}: working", flush=True)
if mode == "wrong":
    print(f"{name}: error: row 3: broken; mend it", file=sys.stderr)
    sys.exit(2)
if mode.startswith("crash"):
    if mode == "crash" or not Path("crashed").exists():
        Path("crashed").touch()
        raise RuntimeError("boom")
if mode == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
    Path("grandchild").write_text(str(child.pid))
    time.sleep(300)
figures = {"decision": "rejected", "checks": [
    {"name": "x", "expression": "a.b >= 1", "value": 0.5, "passed": False, "severity": "error",
     "reason": "0.5 is not >= 1, short by 0.5"}]}
(out / "figures.json").write_text(json.dumps({**figures, "mode": mode}))
"""


@pytest.fixture
def repository(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stages first > merge > gate; what each does is the content of knobs/NAME."""
    (workspace / "knobs").mkdir()
    (workspace / "work.py").write_text(STAGE)
    names, lines = ["first", "merge", "gate"], ["stages:"]
    # Written in another order than they depend on each other.
    for name in reversed(names):
        (workspace / "knobs" / name).write_text("1")
        earlier = [f"data/{names[names.index(name) - 1]}"] if name != "first" else []
        deps = ", ".join([f"knobs/{name}", *earlier])
        lines += [f"  {name}:", f"    cmd: python work.py {name}", f"    deps: [{deps}]", f"    outs: [data/{name}]"]
    (workspace / "dvc.yaml").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], check=True)
    return workspace
