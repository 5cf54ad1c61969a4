import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tasks.evaluation import metrics
from tasks.evaluation.report.plots import write_plots

ROOT = Path(__file__).parents[3]
VALIDATION = {
    "0": {"one-hop": {"em": 0.5, "searches": 1.0, "n": 10}, "all": {"em": 0.5, "searches": 1.0, "n": 10}},
    "10": {"one-hop": {"em": 1.0, "searches": 1.5, "n": 10}, "all": {"em": 1.0, "searches": 1.5, "n": 10}},
}


@pytest.fixture
def run(tmp_path: Path, trajectories) -> Path:
    """A workspace with what dvc.yaml plots, and nothing else."""
    figures = metrics.summarise(trajectories({"sft": 0.0, "rl": 1.0}), confidence=0.95, resamples=50, seed=0)
    write_plots(tmp_path / "data/evaluate/plots", figures, VALIDATION)
    (tmp_path / "data/rl").mkdir()
    (tmp_path / "data/rl/steps.csv").write_text("step,episode/score,actor/entropy\n1,0.25,1.5\n2,0.75,1.0\n")
    plots = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["plots"]
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"plots": plots}), encoding="utf-8")
    return tmp_path


def test_tables_hold_a_row_a_point(run: Path) -> None:
    folder = run / "data/evaluate/plots"
    assert [path.name for path in (folder / "climb").iterdir()] == ["one-hop.csv"]
    assert (folder / "climb/one-hop.csv").read_text() == "step,em,searches\n0,0.5,1.0\n10,1.0,1.5\n"
    models = pd.read_csv(folder / "models.csv").set_index("model")
    assert list(models["em"]) == [0.0, 1.0] and list(models.index) == ["sft", "rl"]
    slices = pd.read_csv(folder / "slices.csv").set_index("slice")["em"]
    assert slices["hops-2, rl"] == 1.0 and slices["hops-2, sft"] == 0.0


def test_dvc_draws_what_dvc_yaml_names(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    for arguments in (["init", "-q", "--no-scm"], ["plots", "show", "--out", "drawn"]):
        subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=run, check=True, capture_output=True)
    page = (run / "drawn/index.html").read_text(encoding="utf-8")
    plots = yaml.safe_load((run / "dvc.yaml").read_text())["plots"]
    assert all(settings["title"] in page for plot in plots for settings in plot.values())
    for value in ('"episode/score": "0.75"', '"step": "10"', '"model": "rl"', '"slice": "hops-2, sft"'):
        assert value in page
