"""The command: what RUN may be, its exit codes, and the page."""

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tasks import diagnose, tracking
from tasks.diagnosis import loading

VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Refuses tags that do not close in order, and gathers what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action") and value]

    def handle_startendtag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def tree(folder: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def log_run(run, stage: str = "rl", artifacts: bool = True, fails: bool = False) -> str:
    """What stage rl leaves in MLflow; returns the run's id."""
    params = {name: section for name, section in run.params.items() if isinstance(section, dict)}
    try:
        with tracking.stage_run(stage, params, "tiny", ()) as active:
            for step in run.steps:
                active.log_figures(step["data"], step=step["step"])
            if artifacts:
                Path("steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in run.steps))
                Path("sanity.json").write_text(json.dumps(run.sanity))
                for name in ("steps.jsonl", "sanity.json"):
                    active.log_artifact(Path(name))
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    return active.run_id


def verdicts(capsys) -> dict[str, str]:
    found = re.findall(r"^(applies|fine|not examined) +([a-z-]+):", capsys.readouterr().out, re.MULTILINE)
    return {cause: verdict for verdict, cause in found}


def test_the_present_workspace_is_examined_and_left_as_it_is(workspace, recorded_run, capsys) -> None:
    recorded_run.write(workspace)
    before = tree(workspace)
    assert diagnose.main([]) == 0
    assert set(verdicts(capsys).values()) == {"fine"}
    after = tree(workspace)
    assert after.keys() - before.keys() == {workspace / "data/diagnosis/report.html"}
    assert before.items() <= after.items()


def test_the_page_is_whole_opens_without_a_network_and_shows_hostile_text_as_text(workspace, recorded_run) -> None:
    recorded_run.params["episode"]["example_answer"] = "<script>alert(1)</script>"
    for one in recorded_run.episodes():
        one |= {
            "answer": "<script>alert(1)</script>",
            "success": 0.0,
            "reward": 0.1,
            "text": "<script>alert(1)</script>",
        }
    recorded_run.write(workspace)
    assert diagnose.main(["--out", "page.html"]) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(page)
    assert not checker.open
    assert all(link.startswith("#") for link in checker.links)
    assert not re.search(r"url\((?!#)|@import", page)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "How to mend it" in page
    assert len(page) < 500_000


def test_a_run_under_way_is_examined_from_its_folder_and_the_lines_of_its_last_step(
    workspace, recorded_run, capsys
) -> None:
    recorded_run.write(workspace, run="checkpoints/abc", finished=False)
    folder = workspace / "checkpoints/abc"
    (folder / "verl").mkdir()
    playing = {name: recorded_run.params[name] for name in ("retrieval", "environment", "episode", "tools")}
    (folder / "agent.json").write_text(json.dumps({**playing, "mask_observations": False}))
    before = tree(folder)
    for name in (".", "checkpoints/abc"):
        assert diagnose.main([name]) == 0
        found = verdicts(capsys)
        # What the run was started with counts, not what the parameters say now.
        assert found.pop("mask") == "applies"
        assert found.pop("engine") == "not examined"  # the engine has no probabilities of observations
        assert set(found.values()) == {"fine"}
    assert tree(folder) == before
    assert "not finished, 6 of 6 steps" in loading.load(folder).state


def test_a_run_killed_before_its_first_step_is_not_called_fine(workspace, recorded_run, capsys) -> None:
    recorded_run.rollouts = recorded_run.episodes("validation")[:40]
    recorded_run.steps = recorded_run.steps[:1]
    recorded_run.write(workspace, run="checkpoints/abc", finished=False)
    verdict = {"tokens": 20, "max_logprob_diff": 0.3, "disagreements": 2, "first": None, "passed": False}
    (workspace / "checkpoints/abc/sanity").mkdir()
    (workspace / "checkpoints/abc/sanity/00000.json").write_text(json.dumps(verdict))
    assert diagnose.main([]) == 0
    found = verdicts(capsys)
    assert found["engine"] == "applies"
    assert {name for name, one in found.items() if one == "fine"} <= {"order"}
    assert {"groups", "reward", "learning-rate", "copied-answers", "format"} <= {
        n for n, v in found.items() if v == "not examined"
    }


def test_lines_that_are_not_gathered_yet_count(tmp_path, recorded_run) -> None:
    from tasks.agent.trajectory import Segment, Trajectory
    from tasks.training import rollouts

    one = Trajectory(
        "q", "search", "made", "Who?", ["Rodi"], 1, [1], [Segment("generated", "<answer> Rodi </answer>", [2, 3])]
    )
    one.answer, one.success, one.sampling = "Rodi", 1.0, {"temperature": 1.0}
    rollouts.append(tmp_path, one, step=1, split="train", sample=0)
    before = tree(tmp_path)
    frame = loading.read_rollouts(tmp_path)
    assert frame is not None and list(frame["answer"]) == ["Rodi"]
    assert tree(tmp_path) == before


def test_a_run_id_whose_files_are_here_is_examined_on_them(workspace, recorded_run, capsys, monkeypatch) -> None:
    recorded_run.write(workspace)
    with tracking.parent_run("flow", "tiny", []) as flow:
        monkeypatch.setenv(tracking.PARENT_RUN, flow.run_id)
    run_id = log_run(recorded_run)
    for name in (run_id, flow.run_id):
        assert diagnose.main([name]) == 0
        assert set(verdicts(capsys).values()) == {"fine"}


@pytest.mark.parametrize("artifacts", [True, False])
def test_a_run_id_whose_files_are_gone_is_examined_on_what_mlflow_holds(
    workspace, recorded_run, capsys, artifacts
) -> None:
    for step in recorded_run.steps[1:]:
        step["data"]["training/rollout_probs_diff_mean"] = 0.02
    run_id = log_run(recorded_run, artifacts=artifacts, fails=not artifacts)
    for step in recorded_run.steps[1:]:
        step["data"]["critic/score/mean"] /= 2
    recorded_run.write(workspace)
    assert diagnose.main([run_id]) == 0
    found = verdicts(capsys)
    assert found["engine"] == "applies"
    assert found["groups"] == found["order"] == found["copied-answers"] == "not examined"


def test_what_there_is_not_ends_with_code_2_and_one_line(workspace, recorded_run, capsys) -> None:
    (workspace / "empty").mkdir()
    (workspace / "broken/data/rl/rollouts").mkdir(parents=True)
    (workspace / "broken/data/rl/rollouts/train_00001.parquet").write_bytes(b"no parquet")
    recorded_run.write(workspace / "odd")
    (workspace / "odd/data/rl/steps.jsonl").write_text('{"step": 1, "data"\n')
    for name, path, content in (
        ("yaml", "params/params.yaml", "a: ["),
        ("check", "rl/sanity.json", '{"episodes": 8}'),
        ("table", "demos/rl_train.parquet", ""),
    ):
        recorded_run.write(workspace / name)
        (workspace / name / "data" / path).write_text(content)
    recorded_run.write(workspace / "good")
    recorded_run.rollouts[0]["segments"] = "no list"
    recorded_run.write(workspace / "text")
    other = log_run(recorded_run, stage="sft", artifacts=False)
    for name, told in (
        ("nowhere", "no such folder"),
        ("empty", "holds no run of stage rl"),
        ("broken", "train_00001.parquet"),
        ("odd", "steps.jsonl"),
        ("yaml", "params.yaml: not YAML"),
        ("check", "sanity.json: no engine check: there is no tokens"),
        ("table", "rl_train.parquet: cannot be read"),
        ("text", "column segments: not JSON"),
        ("f" * 32, "no run of this workspace's MLflow"),
        (other, "neither a run of stage rl nor a flow"),
    ):
        with pytest.raises(SystemExit) as stopped:
            diagnose.main([name])
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert told in error and len(error.splitlines()) == 1
    with pytest.raises(SystemExit) as stopped:
        diagnose.main(["good", "--out", "empty"])
    assert stopped.value.code == 2
    assert "empty: cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        diagnose.main(["a", "b"])
    assert stopped.value.code == 2
