import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from tasks.errors import InputError
from tasks.evaluation import headroom


def summary(questions: int, one: float, oracle: float | None) -> dict[str, Any]:
    return {"questions": questions, "all_support": {"3": one, "10": 1.0}, "oracle": {"3": oracle}}


@pytest.fixture
def figures() -> dict[str, Any]:
    return {
        "by_hops": {
            "bm25": {
                "musique": {"10": summary(2, 0.0, None), "2": summary(1_200, 0.25, 0.75)},
                "a": {"1": summary(5, 1.0, 1.0)},
            },
            "dense": {"a": {"1": summary(5, 0.5, 0.5)}},
        }
    }


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-m", "tasks.evaluation.headroom", *arguments],
        cwd=folder, env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip


def test_a_bar_for_every_source_and_number_of_hops_in_their_order(figures) -> None:
    assert headroom.bars(figures, "bm25") == [
        headroom.Bar("a, 1 hop", 5, 1.0, 1.0),
        headroom.Bar("musique, 2 hops", 1_200, 0.25, 0.75),
        headroom.Bar("musique, 10 hops", 2, 0.0, None),
    ]


def test_a_retriever_that_was_not_measured_is_refused(figures) -> None:
    with pytest.raises(InputError, match="'qdrant' is not among those measured: bm25, dense"):
        headroom.bars(figures, "qdrant")


def test_the_picture_grows_with_what_it_shows(figures, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    heights = []
    for name in ("bm25", "dense"):
        headroom.write(figures, name, tmp_path / f"{name}.png")
        heights.append(matplotlib.image.imread(tmp_path / f"{name}.png").shape[0])
    assert heights[0] > heights[1]
    assert not recwarn.list


def test_the_command_draws_the_last_index(tmp_path: Path, figures) -> None:
    (tmp_path / "data/index").mkdir(parents=True)
    (tmp_path / "data/index/figures.json").write_text(json.dumps(figures))
    done = run(tmp_path, "--retriever", "dense", "--out", "pictures/dense.png")
    assert (done.returncode, done.stdout) == (0, "pictures/dense.png\n"), done.stderr
    assert (tmp_path / "pictures/dense.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_without_an_index_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("headroom: error: data/index/figures.json: no such file; run the earlier stages")
    assert not list(tmp_path.iterdir())
