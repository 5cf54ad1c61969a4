import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "tasks.evaluation.report.picture", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.usefixtures("browser")
def test_the_viewer_is_pictured(tmp_path: Path, trajectories, publish) -> None:
    published = publish(trajectories({"sft": 0.0, "rl": 1.0})) / "report.html"
    (tmp_path / "data/evaluate").mkdir(parents=True)
    published.rename(tmp_path / "data/evaluate/report.html")
    done = run(tmp_path, "--out", "pictures/report.png")
    assert (done.returncode, done.stdout) == (0, "pictures/report.png\n"), done.stderr
    assert (tmp_path / "pictures/report.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["report.png"]


def test_without_a_report_or_a_browser_it_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr == "picture: error: data/evaluate/report.html: no report to show; run `dvc repro evaluate`\n"
    (tmp_path / "data/evaluate").mkdir(parents=True)
    (tmp_path / "data/evaluate/report.html").touch()
    done = run(tmp_path, PATH="", FORAGER_BROWSER="")
    assert done.returncode == 2
    assert done.stderr == ("picture: error: no browser; apt-get install chromium, or name one in FORAGER_BROWSER\n")
