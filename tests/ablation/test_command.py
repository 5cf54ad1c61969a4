"""The command on a folder of results, and the page on it."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from matplotlib.image import imread

from tasks import ablations
from tasks.ablation import result
from tasks.params import arms


def test_the_command_writes_table_picture_and_figures_from_a_folder(make_result, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for arm, em in (("baseline", [1] * 500 + [0] * 500), ("dapo", [1] * 900 + [0] * 100)):
        for seed in (0, 1):
            result.write(make_result(arm, seed, em=em), Path("results"))
    assert ablations.main(["--results", "results", "--out", "out/a.png", "--json", "out/a.json"]) == 0
    said = capsys.readouterr().out
    assert "| dapo | 0.900, 0.900 |" in said and said.endswith("|\n\nout/a.png\nout/a.json\n")
    assert imread("out/a.png").shape[1] > 1000
    found = json.loads(Path("out/a.json").read_text())
    assert found["command"] == "python -m flows.ablations --profile tiny --seeds 0,1 --arms baseline,dapo"
    assert (found["machines"], found["commits"], found["questions"]) == (["2 cores"], ["abc"], 1000)
    baseline, dapo = found["arms"]
    assert baseline["difference"] is None
    assert (dapo["difference"]["verdict"], dapo["difference"]["by_seed"]) == ("better", {"0": 0.4, "1": 0.4})


@pytest.mark.parametrize("content", [b"\xff", b"{", b"[]"])
def test_a_broken_result_is_refused_with_its_file(tmp_path, capsys, content) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(SystemExit, match="2"):
        ablations.main(["--results", str(tmp_path)])
    said = capsys.readouterr().err
    assert said.startswith(f"ablations: error: {tmp_path}/a.json: ") and said.count("\n") == 1


@pytest.mark.parametrize("runs", ["", "latest,", "no run", "0" * 32])
def test_a_run_that_is_none_is_refused(workspace, mlflow_tables, capsys, runs) -> None:
    shutil.copytree(mlflow_tables, "mlruns", dirs_exist_ok=True)
    with pytest.raises(SystemExit, match="2"):
        ablations.main(["--runs", runs])
    assert capsys.readouterr().err.startswith("ablations: error: MLflow: no ")


def test_the_page_has_every_arm_as_its_file_says_it() -> None:
    page = Path(__file__).parents[2].joinpath("docs/ablations.md").read_text(encoding="utf-8")
    section = page[page.index("## Arms") : page.index("## How to read")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    known = {arm.name: arm for arm in arms.read(arms.names())}
    assert [name.strip("*") for name, *_ in rows[2:]] == arms.names()
    assert [name.strip("*") for name, *_ in rows[2:] if name.startswith("**")] == list(arms.CORE)
    for name, keys, teaches in rows[2:]:
        arm = known[name.strip("*")]
        assert teaches == arm.teaches
        shown: dict = {}
        for span in re.findall(r"`([^`]*)`", keys):
            shown |= yaml.safe_load(span)
        assert shown == arm.overlay and (keys == "-") == (not shown)
