"""MLflow in SQLite, as it is used."""

import json
import subprocess
import sys

import pytest
import yaml

from tasks import tracking


def test_stage_under_a_flow_and_alone(workspace, monkeypatch):
    lock = {"stages": {"ingest": {"outs": [{"path": "data/ingest", "md5": "a1.dir"}]}}}
    (workspace / "dvc.lock").write_text(yaml.safe_dump(lock))
    (workspace / "metrics").mkdir()
    with tracking.parent_run("flow", "tiny", ["ingest", "policy", "rl"]) as parent:
        monkeypatch.setenv(tracking.PARENT_RUN, parent.run_id)
        (workspace / "metrics/ingest.json").write_text(json.dumps({"run_id": "e" * 32}))
    params = {"policy": {"steps": 3, "list": [1, 2]}, "seed": 0}
    with tracking.stage_run("policy", params, "tiny", ("ingest",)) as run:
        run.log_figures({"a": {"b@1": 1}, "yes": True, "text": "x", "nan": float("nan")})

    record = tracking.find_run(run.run_id)
    assert record is not None
    assert record.params == {"policy.steps": "3", "policy.list": "[1, 2]", "seed": "0"}
    assert record.data == {"data/ingest": "a1.dir"}
    assert record.tags["mlflow.parentRunId"] == parent.run_id
    assert record.tags["parent.ingest"] == "e" * 32
    assert tracking.connect().get_run(run.run_id).data.metrics == {"a.b_at_1": 1.0, "yes": 1.0}
    flow = tracking.find_run(parent.run_id)
    assert flow is not None
    assert flow.tags["run.ingest"] == "e" * 32
    assert "run.policy" not in flow.tags
    assert tracking.find_run("f" * 32) is None


def test_an_ablation_holds_its_flows_in_an_experiment_of_its_own(workspace, monkeypatch):
    (workspace / "metrics").mkdir()
    (workspace / "metrics/rl.json").write_text(json.dumps({"run_id": "e" * 32}))
    with tracking.parent_run("alone", "tiny", ["rl"]):
        pass
    monkeypatch.setenv(tracking.EXPERIMENT, "ablations")
    with tracking.ablation_run("tiny", ["baseline", "dapo"], [0, 1], "2 cores") as above:
        pass  # in another process it stays open meanwhile
    monkeypatch.setenv(tracking.PARENT_RUN, above.run_id)
    for arm in ("baseline", "dapo"):
        monkeypatch.setenv(tracking.FLOW_TAGS, json.dumps({"name": f"{arm}, seed 0", "arm": arm, "seed": "0"}))
        with tracking.parent_run("train-and-eval-tiny", "tiny", ["rl"]):
            pass
    with pytest.raises(RuntimeError), tracking.parent_run("broken", "tiny", ["rl"]):
        raise RuntimeError

    monkeypatch.delenv(tracking.EXPERIMENT)  # it is found from anywhere
    found = tracking.latest_ablation()
    assert found is not None and found.run_id == above.run_id
    assert found.tags["arms"] == "baseline,dapo" and found.tags["seeds"] == "0,1"
    below = tracking.flows(above.run_id)
    assert [(flow.name, flow.tags["arm"], flow.tags["run.rl"]) for flow in below] == [
        ("baseline, seed 0", "baseline", "e" * 32),
        ("dapo, seed 0", "dapo", "e" * 32),
    ]
    client = tracking.connect().MlflowClient()
    ids = {client.get_run(one).info.experiment_id for one in (above.run_id, below[0].run_id)}
    assert ids == {client.get_experiment_by_name("ablations").experiment_id}
    assert len(client.search_runs([client.get_experiment_by_name("train-and-eval").experiment_id])) == 1


@pytest.mark.slow
def test_processes_may_set_up_the_database_at_the_same_time(workspace):
    code = "from tasks import tracking\nwith tracking.stage_run('rl', {'a': 1}, 'tiny', ()): pass"
    children = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, errors
    assert len(tracking.connect().search_runs(output_format="list")) == 2


def test_any_name_becomes_one_that_mlflow_takes(workspace):
    names = [
        "rows.train.https://a.example/b",
        "../x",
        "/y",
        "a//b",
        "x" * 300,
        "x" * 301,
        "val-core/world/mean@1",
        "é?",
    ]
    with tracking.stage_run("ingest", {}, "tiny", ()) as run:
        for number, name in enumerate(names):
            run.log_figures({name: number})
    logged = tracking.connect().get_run(run.run_id).data.metrics
    assert sorted(logged.values()) == list(range(len(names)))
    assert logged["val-core/world/mean_at_1"] == 6
    assert logged["_a__b"] == 3
    assert max(map(len, logged)) == 250
