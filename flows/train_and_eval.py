"""The flow `train-and-eval`: every stage of dvc.yaml as a Prefect task run, then the release action.

The order comes from DVC's graph; nothing here knows what a stage does. By hand, without any server:

    python -m flows.train_and_eval --profile tiny [--set KEY=VALUE ...] [--no-release]

Exit codes: 0 the flow completed (released or rejected), 2 wrong input or parameters, 1 anything else.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State as PrefectState
from prefect.states import Completed

from flows import summary, workspace
from flows.environment import TERMINAL
from flows.server import prefect_server
from flows.stage import LOGS, Result, StageError, dvc_stage, stage_order
from tasks import params, processes, tracking
from tasks.errors import InputError
from tasks.release import action

STARTED = psutil.Process().create_time()  # what a person waits for begins before anything is imported
RESUMES = ("sft", "rl", "rft")  # stages that go on from their last checkpoint: a crash is worth a second try
MARGIN = 30.0  # minutes that a stage may take beside its own training limit
LIMIT = 120.0  # minutes for a stage that has no limit of its own


def time_limit(stage: str, content: dict[str, Any]) -> float:
    """Seconds that a stage may take."""
    section = content.get(stage)
    own = section.get("timeout_minutes") if isinstance(section, dict) else None
    return 60.0 * (own + MARGIN if own else LIMIT)


@task(task_run_name="release", cache_policy=NO_CACHE)
def release() -> None:
    """The release action: moves the champion or not, by the gate's decision; never cached.

    In this process: MLflow is imported here already, which takes a child of its own 3 s.
    """
    try:
        line = f"release: {action.release()}"
    except InputError as error:
        raise StageError("release", 2, f"release: error: {error}") from None
    get_run_logger().info(line)
    if TERMINAL:
        print(line, flush=True)


@flow(name="train-and-eval", flow_run_name="train-and-eval-{profile}", validate_parameters=False)
def train_and_eval(
    profile: str = "tiny", may_release: bool = True, settings: dict[str, Any] | None = None
) -> PrefectState[list[Result]]:
    """Run the whole DAG of this workspace with a profile; ends as Released, Rejected or failed.

    Args:
        profile: a file of params/.
        may_release: whether the release action follows; without it the champion stays, whatever the gate says.
        settings: parameters that lie over the profile in this run and no later one, nested: {"rl": {"steps": 40}}.
    """
    if not isinstance(settings, dict | None):
        raise InputError(f"must be keys with values, got {settings!r}", where="settings")
    with workspace.claim():
        if not TERMINAL:
            workspace.end_leftovers()
        params.use_profile(profile, settings)
        content = params.resolve_in_force()
        stages = stage_order()
        try:
            with tracking.parent_run(f"train-and-eval-{profile}", profile, stages) as run:
                return _run_all(stages, content, run, may_release, settings or {})
        finally:
            processes.end_leftovers()


def _run_all(
    stages: list[str], content: dict[str, Any], run: tracking.Run, may_release: bool, settings: dict[str, Any]
) -> PrefectState[list[Result]]:
    start = STARTED if TERMINAL else time.time()
    single = {key: value if isinstance(value, str) else json.dumps(value) for key, value in tracking.flatten(settings)}
    run.tag(**{f"set.{key}": value for key, value in single.items()})
    environment = {tracking.PARENT_RUN: run.run_id}
    results: list[Result] = []
    for stage in stages:
        attempt = dvc_stage.with_options(retries=1) if stage in RESUMES else dvc_stage
        state: Any = attempt(stage, time_limit(stage, content), environment, return_state=True)
        results.append(state.result())
        run.tag(**{f"state.{stage}": results[-1].state})
    decision = read_decision() if "gate" in stages else None
    if decision is not None:
        run.tag(decision=decision["decision"])
        if may_release:
            release()
    report = summary.Summary.collect(results, time.time() - start, decision, run.run_id, single)
    create_table_artifact(key="stages", table=report.rows(), description="Stages of this run")
    create_markdown_artifact(key="result", markdown=report.markdown(), description="Figures and where to look next")
    if TERMINAL:
        report.show()
    else:
        get_run_logger().info(report.markdown())
    name = (decision or {"decision": "completed"})["decision"].capitalize()
    return Completed(name=name, message=report.reason(), data=results)


def read_decision() -> dict[str, Any]:
    """The gate's figures: `decision` and `checks`."""
    return json.loads(Path("data/gate/figures.json").read_text(encoding="utf-8"))


def _stop(number: int, frame: FrameType | None) -> None:
    print("train-and-eval: told to stop; ending the running stage", file=sys.stderr, flush=True)
    # Unwinds the with-blocks: the running stage is ended and MLflow's runs are closed as failed.
    raise SystemExit(128 + number)


def main() -> int:
    """Run the flow by hand; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m flows.train_and_eval", description=main.__doc__)
    parser.add_argument("--profile", default="tiny", help="a file of params/ (default: tiny)")
    parser.add_argument(
        "--set", action="append", metavar="KEY=VALUE", default=[], help="a parameter, over the profile; may be repeated"
    )
    parser.add_argument("--no-release", action="store_true", help="leave the champion as it is")
    arguments = parser.parse_args()
    profile = arguments.profile
    signal.signal(signal.SIGTERM, _stop)
    try:
        settings = params.parse_settings(arguments.set)
        params.resolve(profile, settings)
        with workspace.claim():
            ended = workspace.end_leftovers()
            if ended:
                print(
                    f"train-and-eval: ended {ended} processes that an earlier, killed run had left behind", flush=True
                )
            with prefect_server():
                state = train_and_eval(profile, not arguments.no_release, settings, return_state=True)
            if state.is_completed():
                return 0
            state.result()
    except InputError as error:
        print(f"train-and-eval: error: {error}", file=sys.stderr)
        return 2
    except StageError as error:
        log = LOGS / f"{error.stage}.log"
        output = f"; its whole output: {log}" if log.is_file() else ""
        print(f"train-and-eval: stage {error.stage} failed{output}", file=sys.stderr)
        print(error.line, file=sys.stderr)
        return 2 if error.exit_code == 2 else 1
    except KeyboardInterrupt:
        print("train-and-eval: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
