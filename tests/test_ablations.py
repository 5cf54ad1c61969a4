"""The comparison from a real MLflow store in SQLite, filled as an ablation, its flows and their stages fill it."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tasks import ablations, tracking
from tasks.ablation import tracked
from tasks.errors import InputError

REWARDS = [(1, 0.2), (2, 0.35), (3, 0.5)]


def mark(stage: str, run: tracking.Run) -> None:
    Path("metrics").mkdir(exist_ok=True)
    Path("metrics", f"{stage}.json").write_text(json.dumps({"run_id": run.run_id}))


def run_rl(artifact: bool = True) -> None:
    with tracking.stage_run("rl", {"rl": {"prompts": 16}}, "tiny", ()) as run:
        at = {
            str(10 * n): {"all": {"em": em, "searches": 1.0, "n": 9}, "two-hop": {"em": 0.0}}
            for n, em in ((0, 0.1), (1, 0.4))
        }
        run.log_figures({"seconds_per_step": 6.5, "validation": at})
        if artifact:
            steps = [{"step": step, "data": {"episode/score": reward}} for step, reward in REWARDS]
            Path("steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
            run.log_artifact(Path("steps.jsonl"))
        mark("rl", run)


def run_evaluate(right: int) -> None:
    rows = [
        {"model": model, "question_id": f"q{n:03d}", "data_source": "world-one-hop", "hops": 1, "em": float(n < most),
         "searches": 1, "format_valid": True}
        for model, most in (("base", 0), ("sft", 25), ("rl", right))
        for n in range(100)
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet("trajectories.parquet")
    with tracking.stage_run("evaluate", {}, "tiny", ()) as run:
        run.log_artifact(Path("trajectories.parquet"))
        mark("evaluate", run)


@pytest.fixture
def store(workspace, mlflow_tables):
    """The workspace with an MLflow that holds nothing."""
    shutil.copytree(mlflow_tables, "mlruns")


@pytest.fixture
def ablation(store, monkeypatch):
    """Fills MLflow: `run_all({(arm, seed): right answers})` returns the ablation's run id."""

    def run_flow(above: str, arm: str, seed: int, right: int | None, fails: bool = False) -> None:
        if right is not None:  # otherwise the stages are restored, with their earlier runs' ids
            run_rl()
            run_evaluate(right)
        monkeypatch.setenv(tracking.PARENT_RUN, above)
        monkeypatch.setenv(
            tracking.FLOW_TAGS, json.dumps({"name": f"{arm}, seed {seed}", "arm": arm, "seed": str(seed)})
        )
        try:
            with tracking.parent_run("train-and-eval-tiny", "tiny", ["rl", "evaluate"]):
                if fails:
                    raise RuntimeError
        except RuntimeError:
            pass
        for name in (tracking.PARENT_RUN, tracking.FLOW_TAGS):
            monkeypatch.delenv(name)

    def run_all(runs: dict, **more) -> str:
        # In one process MLflow has no second run beside an open one: that of the ablation is closed before its flows.
        with tracking.ablation_run("tiny", sorted({arm for arm, _ in runs}), [0], "2 cores") as above:
            pass
        for (arm, seed), right in runs.items():
            run_flow(above.run_id, arm, seed, right, **more)
        return above.run_id

    return run_all


def test_the_flows_of_the_latest_ablation_become_results(ablation) -> None:
    ablation({("baseline", 0): 90, ("gspo", 0): 10})
    ablation({("baseline", 0): 50, ("dapo", 0): 75})
    baseline, dapo = tracked.read(["latest"])
    assert (baseline.arm, baseline.seed, sum(baseline.models["rl"].em)) == ("baseline", 0, 50)
    assert (dapo.arm, sum(dapo.models["rl"].em), sum(dapo.models["sft"].em)) == ("dapo", 75, 25)
    assert [(step.step, step.data["episode/score"]) for step in dapo.steps] == REWARDS
    assert {step: at.em for step, at in dapo.validation.items()} == {"0": 0.1, "10": 0.4}
    assert (dapo.machine, dapo.profile, dapo.seconds_per_step) == ("2 cores", "tiny", 6.5)


def test_runs_are_put_together_and_the_later_one_of_an_arm_and_seed_counts(ablation) -> None:
    first = ablation({("baseline", 0): 90, ("dapo", 0): 10})
    second = ablation({("dapo", 0): 75, ("dapo", 1): 80})
    found = {(one.arm, one.seed): sum(one.models["rl"].em) for one in tracked.read([first, second])}
    assert found == {("baseline", 0): 90, ("dapo", 0): 75, ("dapo", 1): 80}


def test_a_restored_result_counts_and_a_flow_that_failed_does_not(ablation) -> None:
    ablation({("baseline", 0): 90})
    above = ablation({("baseline", 0): None})
    (one,) = tracked.read([above])
    assert sum(one.models["rl"].em) == 90
    failed = ablation({("baseline", 0): 90}, fails=True)
    with pytest.raises(
        InputError, match=f"ablation's run {failed}: no flow in it has ended well; run `make ablations`"
    ):
        tracked.read([failed])


def test_what_is_no_ablation_is_named(store) -> None:
    with pytest.raises(InputError, match="MLflow: no finished ablation; run `make ablations`"):
        tracked.read(["latest"])
    run_rl()
    run_id = json.loads(Path("metrics/rl.json").read_text())["run_id"]
    for wrong in (run_id, "f" * 32):
        with pytest.raises(InputError, match=f"MLflow: no ablation's run {wrong}"):
            tracked.read([wrong])


def test_a_run_made_in_another_clone_or_without_its_steps_is_no_result(ablation) -> None:
    run_rl(artifact=False)
    run_evaluate(50)
    above = ablation({("baseline", 0): None})
    with pytest.raises(InputError, match=r"arm baseline, seed 0: no artifact steps\.jsonl in rl's run \w{32}"):
        tracked.read([above])
    Path("metrics/rl.json").write_text(json.dumps({"run_id": "f" * 32}))
    above = ablation({("baseline", 0): None})
    with pytest.raises(InputError, match="arm baseline, seed 0: no run of stage rl in this workspace's MLflow"):
        tracked.read([above])


def test_the_command_ends_with_2_and_one_line(store, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        ablations.main([])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "ablations: error: MLflow: no finished ablation; run `make ablations`\n"
    assert not Path("docs").exists()
