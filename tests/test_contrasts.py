"""The contrasts from a real MLflow store in SQLite, filled as flow and stages fill it."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.image import imread

from tasks import contrasts, params, tracking
from tasks.errors import InputError

REWARDS = [(1, 0.2), (2, 0.35), (3, 0.5)]


def mark(stage: str, run: tracking.Run) -> None:
    Path("metrics").mkdir(exist_ok=True)
    Path("metrics", f"{stage}.json").write_text(json.dumps({"run_id": run.run_id}))


def run_rl(profile: str, rewards=REWARDS, em=(0.1, 0.4)) -> None:
    with tracking.stage_run("rl", {}, profile, ()) as run:
        for step, reward in rewards:
            run.log_figures({"critic/score/mean": reward, "actor/entropy": 1.0}, step=step)
        at = {str(10 * n): {"two-hop": {"em": 0.0}, "all": {"em": value, "n": 9}} for n, value in enumerate(em)}
        run.log_figures({"steps": 3, "validation": at})
        mark("rl", run)


def run_evaluate(profile: str, em: float = 0.5) -> None:
    def model(value: float) -> dict:
        return {"em": {"mean": value}, "searches": {"mean": 1 + value}, "format_rate": {"mean": 0.9}}

    figures = {
        "models": {"base": model(0.0), "sft": model(0.25), "rl": model(em)},
        "comparisons": {"rl-sft": {"em": {"mean": em - 0.25, "low": em - 0.3, "high": em - 0.2}}},
        "slices": {name: {"source-world-two-hop": {"em": {"mean": at}}} for name, at in (("sft", 0.1), ("rl", em))},
    }
    with tracking.stage_run("evaluate", {}, profile, ()) as run:
        run.log_figures(figures)
        mark("evaluate", run)


def run_flow(profile: str, decision: str = "rejected", fails: bool = False, **evaluated: float) -> None:
    # The stages' runs come first: in one process MLflow has no second run beside the flow's.
    run_rl(profile)
    run_evaluate(profile, **evaluated)
    try:
        with tracking.parent_run(f"train-and-eval-{profile}", profile, ["rl", "evaluate"]) as flow:
            flow.tag(decision=decision)
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass


def test_the_latest_flow_that_ended_well_is_read(workspace) -> None:
    run_flow("tiny", em=0.5)
    run_flow("tiny", em=0.75, decision="released")
    run_flow("tiny", em=0.9, fails=True)
    run_flow("contrast-no-mask", em=0.3)
    found = contrasts.read("tiny")
    assert (found.name, found.decision) == ("tiny", "released")
    assert found.reward == REWARDS
    assert found.em == [(0, 0.1), (10, 0.4)]
    assert found.evaluated["models.rl.em.mean"] == 0.75
    assert contrasts.read("contrast-no-mask").name == "no-mask"


def test_a_restored_result_counts_and_not_a_later_run_of_the_profile(workspace) -> None:
    run_flow("tiny", em=0.5)
    kept = {name: Path("metrics", f"{name}.json").read_text() for name in ("rl", "evaluate")}
    run_flow("tiny", em=0.75)
    # Back to the first parameters: DVC restores outputs and figures, and no stage runs.
    with tracking.parent_run("train-and-eval-tiny", "tiny", ["rl", "evaluate"]):
        for name, text in kept.items():
            Path("metrics", f"{name}.json").write_text(text)
    assert contrasts.read("tiny").evaluated["models.rl.em.mean"] == 0.5


def test_the_table_by_hand(workspace) -> None:
    run_flow("tiny", em=0.75, decision="released")
    lines = contrasts.table([contrasts.read("tiny")]).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert dict(zip(cells[0], cells[2], strict=True)) == {
        "profile": "tiny",
        "EM base": "0.000",
        "SFT": "0.250",
        "RL": "0.750",
        "RL - SFT": "+0.500 [+0.450, +0.550]",
        "two-hop EM, SFT > RL": "0.100 > 0.750",
        "searches, SFT > RL": "1.250 > 1.750",
        "in form, RL": "0.900",
        "reward, first > last step": "0.200 > 0.500",
        "gate": "released",
    }


def test_runs_of_different_commits_are_told_in_one_line(workspace, monkeypatch, capsys) -> None:
    for profile in params.contrasts():
        commit = "def+changes" if profile == "contrast-no-mask" else "abc"
        monkeypatch.setattr(tracking, "git_commit", lambda commit=commit: commit)
        run_flow(profile)
    contrasts.main(["--out", "out/contrasts.png"])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "not all of one commit, so the code may differ as well: "
        "abc tiny, format-only, no-sft, unshuffled; def+changes no-mask",
        "out/contrasts.png",
    ]
    assert contrasts.commits([contrasts.read("tiny"), contrasts.read("contrast-no-sft")]) == ""


def test_a_profile_without_a_finished_run_is_named(workspace) -> None:
    run_flow("contrast-no-sft", fails=True)
    run_flow("tiny")
    with pytest.raises(InputError, match="profile contrast-no-sft: no finished run; run `make contrasts`"):
        contrasts.read("contrast-no-sft")


def test_a_run_made_in_another_clone_is_no_figure(workspace) -> None:
    run_flow("tiny")
    Path("metrics/rl.json").write_text(json.dumps({"run_id": "f" * 32}))
    with tracking.parent_run("train-and-eval-tiny", "tiny", ["rl", "evaluate"]):
        pass
    with pytest.raises(InputError, match="profile tiny: no run of stage rl"):
        contrasts.read("tiny")


def test_an_rl_run_without_the_figures_is_refused(workspace) -> None:
    run_rl("tiny", em=())
    run_evaluate("tiny")
    with tracking.parent_run("train-and-eval-tiny", "tiny", ["rl", "evaluate"]):
        pass
    with pytest.raises(InputError, match=r"profile tiny, rl's run \w{32}: no metric validation"):
        contrasts.read("tiny")


def test_every_profile_has_a_named_line_in_both_panels(workspace, capsys) -> None:
    for profile in params.contrasts():
        run_flow(profile)
    figure = contrasts.draw([contrasts.read(profile) for profile in params.contrasts()])
    for axes, points in zip(figure.axes, (REWARDS, [(0, 0.1), (10, 0.4)]), strict=True):
        assert len(axes.lines) == 5
        assert [tuple(point) for point in axes.lines[-1].get_xydata()] == points
        names = [text.get_text().split()[0] for text in axes.texts]
        assert names == ["tiny", "format-only", "no-mask", "no-sft", "unshuffled"]
        heights = sorted(text.xy[1] for text in axes.texts)
        assert min(b - a for a, b in pairwise(heights)) > 0.05  # all lines end at one value

    assert contrasts.main(["--out", "out/contrasts.png"]) == 0
    said = capsys.readouterr().out
    assert said.count("| rejected |") == 5 and said.endswith("|\n\nout/contrasts.png\n")
    assert imread("out/contrasts.png").shape[1] > 1000
    assert [path.name for path in Path("out").iterdir()] == ["contrasts.png"]


def test_the_command_ends_with_2_and_one_line(workspace, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        contrasts.main([])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("contrasts: error: profile tiny: no finished run")
    assert not Path("docs").exists()
