"""The release action against a real registry in SQLite."""

import json

import pandas as pd
import pytest
import yaml

from tasks import lineage, tracking
from tasks.errors import InputError
from tasks.release import action, registry


def decide(root, decision, model_hash, successes, failed=(), candidate="rl"):
    """What gate, merge and evaluate leave for the release action."""
    (root / "data/gate").mkdir(parents=True, exist_ok=True)
    reason = "0.5 is not >= 0.6, short by 0.1"
    checks = [{"name": name, "passed": False, "severity": "error", "reason": reason} for name in failed]
    (root / "data/gate/figures.json").write_text(json.dumps({"decision": decision, "checks": checks}))
    hashes = {"merge": "other", "rft": "other", {"rl": "merge", "rft": "rft"}[candidate]: model_hash}
    lock = {"stages": {name: {"outs": [{"path": f"data/{name}", "md5": md5}]} for name, md5 in hashes.items()}}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    frame = pd.DataFrame({"question_id": [f"q{i}" for i in range(len(successes))], "success": successes})
    frame["model"] = candidate
    (root / "data/evaluate").mkdir(parents=True, exist_ok=True)
    (root / "data/evaluate/figures.json").write_text(json.dumps({"candidate": candidate}))
    other = frame.assign(model="sft", success=0.0)
    pd.concat([frame, other]).to_parquet(root / "data/evaluate/trajectories.parquet")


def champion():
    return registry.by_alias(registry.CHAMPION)


def test_life_of_a_champion(workspace, capsys):
    with tracking.stage_run("merge", {"merge": {"prompts": 9}, "seed": 0}, "tiny", ()) as run:
        pass
    (workspace / "metrics").mkdir()
    (workspace / "metrics/merge.json").write_text(json.dumps({"run_id": run.run_id}))
    (workspace / "metrics/rl.json").write_text(json.dumps({"run_id": "0" * 32}))

    # Rejected: nothing moves, one line of history however often it is repeated.
    decide(workspace, "rejected", "h0", [0.0] * 20, failed=["exact-match"])
    assert "rejected (exact-match: 0.5 is not >= 0.6, short by 0.1); the champion stays: none" in action.release()
    action.release()
    assert champion() is None
    assert [(e["decision"], e["action"], e["reasons"]) for e in action.history()] == [
        ("rejected", "none", ["exact-match"])
    ]

    # Released: version 1 is champion; again: nothing changes.
    decide(workspace, "released", "h1", [1.0] * 16 + [0.0] * 4)
    assert "version 1" in action.release()
    assert "already" in action.release()
    assert (champion().number, champion().aliases) == (1, ("champion",))
    assert champion().tags["run.merge"] == run.run_id
    assert len(action.history()) == 2

    # Worse on 10 of 20 shared questions, p = 2^-10: the champion stays.
    decide(workspace, "released", "h2", [0.0] * 10 + [1.0] * 6 + [0.0] * 4)
    assert "stays" in action.release()
    assert champion().number == 1
    assert action.history()[-1]["action"] == "kept champion"

    # Better by 2: not worse, so it becomes champion, and version 1 is the previous one.
    decide(workspace, "released", "h3", [1.0] * 18 + [0.0] * 2)
    assert "version 2" in action.release()
    assert champion().number == 2
    assert registry.by_alias(registry.PREVIOUS).number == 1
    assert [e["version"] for e in action.history()] == [None, 1, None, 2]

    # A kill between moving the alias and writing the line is mended by the next run.
    lines = action.HISTORY.read_text().splitlines(keepends=True)
    action.HISTORY.write_text("".join(lines[:-1]))
    action.release()
    assert action.history()[-1]["version"] == 2

    # The chain, from the registry and from a run.
    capsys.readouterr()
    assert lineage.main([]) == 0
    text = capsys.readouterr().out
    assert "version 2 (champion)" in text
    assert "data/merge  h3" in text
    assert "prompts = 9" in text
    assert "foreign (another clone)" in text
    assert lineage.main([run.run_id]) == 0
    assert "stage merge" in capsys.readouterr().out
    for wrong in ("7", "f" * 32, "nobody"):
        with pytest.raises(SystemExit, match="2"):
            lineage.main([wrong])
    assert capsys.readouterr().err.count("\n") == 3


def test_inside_a_flow_the_release_is_the_flows_child(workspace):
    decide(workspace, "released", "h1", [1.0] * 16 + [0.0] * 4)
    with tracking.parent_run("flow", "tiny", []) as flow:
        assert "version 1" in action.release()
    mlflow = tracking.connect()
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    (release,) = [run for run in runs if run.data.tags.get("kind") == "release"]
    assert release.data.tags["mlflow.parentRunId"] == flow.run_id


def test_what_is_released_is_the_model_that_the_evaluation_names(workspace):
    decide(workspace, "released", "h1", [1.0] * 16 + [0.0] * 4, candidate="rft")
    assert "version 1" in action.release()
    assert champion().tags["model.path"] == "data/rft"
    assert champion().tags["model.hash"] == "h1"
    assert champion().tags["hash.data/merge"] == "other"
    assert action.history()[-1]["model_path"] == "data/rft"
    # Worse than it: the scores that are kept, and compared, are the candidate's.
    decide(workspace, "released", "h2", [0.0] * 20)
    assert "stays" in action.release()


def test_no_model_and_no_trajectories_are_wrong_input(workspace):
    decide(workspace, "released", "h", [1.0])
    (workspace / "data/evaluate/trajectories.parquet").unlink()
    with pytest.raises(InputError, match=r"trajectories\.parquet"):
        action.release()
    (workspace / "dvc.lock").unlink()
    with pytest.raises(InputError, match=r"dvc\.lock"):
        action.release()
