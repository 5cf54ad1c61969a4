import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.evaluation import climb
from tasks.training.rl_figures import validation_figures

PNG = b"\x89PNG\r\n"


def rollouts(*rows: tuple[int, str, int, float, int], split: str = "validation") -> pd.DataFrame:
    """Rows of step, source, hops, exact match and searches, as `RolloutLog.publish` returns them."""
    frame = pd.DataFrame(rows, columns=["step", "data_source", "hops", "em", "searches"])
    return frame.assign(split=split, success=frame["em"])


@pytest.fixture
def validation() -> dict:
    """Ten one-hop and twenty two-hop questions; at step 4 the one-hop questions are missing."""
    rows = [(step, "world-one-hop", 1, 1.0, 1) for step in (0, 12) for _ in range(10)]
    for step, right in ((0, 2), (4, 10), (12, 18)):
        rows += [(step, "world-two-hop", 2, float(n < right), 1 + (n < right)) for n in range(20)]
    return validation_figures(rollouts(*rows[::-1]))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-m", "tasks.evaluation.climb", *arguments],
        cwd=folder, env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip


def test_rl_counts_its_validations_by_kind_and_step(validation: dict) -> None:
    assert list(validation) == ["0", "4", "12"]
    assert list(validation["0"]) == ["one-hop", "two-hop", "all"]
    assert list(validation["4"]) == ["two-hop", "all"]
    assert validation["0"]["two-hop"] == {"em": 0.1, "searches": 1.1, "n": 20}
    assert validation["12"]["all"] == {"em": pytest.approx(28 / 30), "searches": pytest.approx(48 / 30), "n": 30}


def test_training_rollouts_do_not_count_and_kinds_come_easiest_and_most_asked_first() -> None:
    asked = rollouts(
        (0, "world-a", 2, 1.0, 2), (0, "hotpotqa", 2, 0.0, 2), (0, "hotpotqa", 2, 0.0, 2), (0, "z", 1, 1.0, 1)
    )
    found = validation_figures(pd.concat([asked, rollouts((0, "z", 1, 0.0, 5), (1, "z", 1, 0.0, 5), split="train")]))
    assert list(found) == ["0"]
    assert list(found["0"]) == ["z", "hotpotqa", "a", "all"]
    assert found["0"]["z"] == {"em": 1.0, "searches": 1.0, "n": 1}


def test_points_come_in_the_order_of_steps_with_wilsons_interval(validation: dict) -> None:
    found = climb.climbs(dict(reversed(validation.items())))
    assert [point.step for point in found["two-hop"]] == [0, 4, 12]
    assert [point.step for point in found["one-hop"]] == [0, 12]
    # Wilson's 95 % interval of 10 of 20 and of 10 of 10.
    half, full = found["two-hop"][1].em, found["one-hop"][0].em
    assert (half.mean, half.low, half.high) == (0.5, pytest.approx(0.2993, abs=1e-4), pytest.approx(0.7007, abs=1e-4))
    assert (full.mean, full.low, full.high) == (1.0, pytest.approx(0.7225, abs=1e-4), 1.0)
    assert [point.searches for point in found["two-hop"]] == [1.1, 1.5, 1.9]


def test_all_questions_have_a_line_only_beside_several_kinds(validation: dict) -> None:
    assert set(climb.climbs(validation)) == {"one-hop", "two-hop", "all"}
    assert set(climb.climbs({"4": validation["4"]})) == {"two-hop"}


def test_the_svg_names_every_kind_in_the_pages_colours(validation: dict) -> None:
    drawn = climb.svg(validation)
    for text in ("one-hop 1.00", "two-hop 0.90", "all 0.93", "two-hop 1.9", "RL step"):
        assert text in drawn
    assert "var(--series-1)" in drawn and "#0a0b0" not in drawn
    assert drawn == climb.svg(validation)


def test_one_validation_is_drawn_without_complaint(validation: dict, recwarn: pytest.WarningsRecorder) -> None:
    assert "one-hop 1.00" in climb.svg({"0": validation["0"]})
    assert not recwarn.list


def test_the_command_draws_the_last_run(tmp_path: Path, validation: dict) -> None:
    (tmp_path / "data/rl").mkdir(parents=True)
    (tmp_path / "data/rl/figures.json").write_text(json.dumps({"steps": 12, "validation": validation}))
    done = run(tmp_path, "--out", "pictures/climb.png")
    assert (done.returncode, done.stdout) == (0, "pictures/climb.png\n"), done.stderr
    assert (tmp_path / "pictures/climb.png").read_bytes().startswith(PNG)
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["climb.png"]


def test_without_a_run_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr == "climb: error: data/rl/figures.json: no RL run to draw; run `dvc repro rl`\n"
    assert not list(tmp_path.iterdir())


def test_figures_without_validations_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text('{"steps": 12}')
    with pytest.raises(InputError, match="no validations"):
        climb.read(path)
