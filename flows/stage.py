"""One DVC stage as one Prefect task: DVC says what is stale and caches; Prefect gives states, logs, retries, limits."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State as PrefectState
from prefect.states import Completed

from flows.environment import TERMINAL
from tasks import processes
from tasks.errors import InputError

State = Literal["Cached", "Restored", "Ran"]
LOGS = Path(".forager/logs")
# What DVC says of its own files: of no use to who watches the stages.
_NOISE = re.compile(
    r"(Running stage '.*':|> python -m .*|Updating lock file .*|Generating lock file .*|To track the changes .*"
    r"|\s*git add .*|To enable auto staging.*|\s*dvc config core.autostage.*|Use `dvc push`.*|)"
)


@dataclass(frozen=True)
class Result:
    """How a stage ended well: unchanged, its outputs restored from DVC's run cache, or run."""

    stage: str
    state: State
    seconds: float


class StageError(RuntimeError):
    """A stage failed.

    Attributes:
        stage: its name.
        exit_code: the stage's own exit code; None when there is none (time limit, DVC's own failure).
        line: what it said last that tells why.
    """

    def __init__(self, stage: str, exit_code: int | None, line: str) -> None:
        self.stage, self.exit_code, self.line = stage, exit_code, line
        super().__init__(line)

    @property
    def is_crash(self) -> bool:
        """Whether another try may help: wrong input stays wrong, and a time limit is reached again."""
        return self.exit_code not in (None, 2)


def stage_order() -> list[str]:
    """Names of the stages in an order that DVC's graph allows; dvc.yaml alone holds it.

    Raises:
        InputError: dvc.yaml is wrong, or this is no DVC workspace.
    """
    import networkx
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            graph = repo.index.graph  # edges point from a stage to the stages it needs
            return [stage.addressing for stage in reversed(list(networkx.topological_sort(graph)))]
    except DvcException as error:
        raise InputError(" ".join(str(error).split()), where="dvc.yaml") from None


def is_fresh(stage: str) -> bool:
    """Whether DVC finds nothing changed; in this process, since its command line costs a second each time."""
    from dvc.lock import LockError
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            return not repo.status(targets=[stage])
    except LockError:
        raise InputError("another dvc command works in this folder", mend="wait for it or stop it") from None


def run_stage(stage: str, timeout: float, environment: Mapping[str, str], say: Callable[[str], None]) -> Result:
    """Bring one stage up to date by `dvc repro --single-item`.

    Args:
        stage: its name.
        timeout: seconds after which the stage and all its descendants are killed.
        environment: variables for the stage, besides the workspace's mark.
        say: takes each line of output as it comes.

    Raises:
        StageError: the stage failed or ran past its limit.
    """
    start = time.monotonic()
    if is_fresh(stage):
        return Result(stage, "Cached", time.monotonic() - start)
    log = LOGS / f"{stage}.log"
    if log.is_file():
        log.replace(log.with_suffix(".previous.log"))
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        say(line)

    command = [sys.executable, "-m", "dvc", "repro", "--single-item", stage]
    mark = {processes.MARK: str(Path.cwd()), "PATH": _path_with_python()}
    try:
        processes.run_supervised(
            command, log=log, timeout=timeout, environment={**environment, **mark}, on_line=on_line
        )
    except processes.CommandError as error:
        raise _explain(stage, error, lines) from None
    finally:
        # Ray, vLLM and verl start sessions of their own; none of them may outlive the stage.
        processes.end_leftovers()
    restored = any(line.endswith("is cached - skipping run, checking out outputs") for line in lines)
    return Result(stage, "Restored" if restored else "Ran", time.monotonic() - start)


def _path_with_python() -> str:
    """PATH by which the stages' `python` is this one, also when the environment is not activated."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def _explain(stage: str, error: processes.CommandError, lines: list[str]) -> StageError:
    code = next(
        (int(found[1]) for line in reversed(lines) if (found := re.search(r"exited with (-?\d+)$", line))), None
    )
    told = [line for line in lines if re.match(r"[\w-]+: error: ", line)]
    if told:
        return StageError(stage, code, told[-1])
    if code is not None:
        words = [line for line in lines if line.strip() and not line.startswith("ERROR: failed to reproduce")]
        return StageError(stage, code, f"{stage}: error: exit code {code}; its last line: {words[-1] if words else ''}")
    # DVC's own failure says why itself; a time limit is told by the command's end.
    dvc = [line for line in lines if line.startswith("ERROR:")]
    return StageError(stage, None, f"{stage}: error: {dvc[-1] if dvc else str(error).splitlines()[0]}")


def _may_help(task: Any, run: Any, state: PrefectState) -> bool:
    """Prefect's retry condition: only after a crash."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, StageError) and error.is_crash


@task(task_run_name="{stage}", cache_policy=NO_CACHE, retry_condition_fn=_may_help, retry_delay_seconds=2)
def dvc_stage(stage: str, timeout: float, environment: dict[str, str]) -> PrefectState[Result]:
    """A Prefect task that ends as Cached, Restored or Ran, or fails with StageError."""
    logger = get_run_logger()

    def say(line: str) -> None:
        logger.info(line)
        if TERMINAL and not _NOISE.fullmatch(line):
            print(line, flush=True)

    result = run_stage(stage, timeout, environment, say)
    return Completed(name=result.state, message=f"{stage}: {result.state} in {result.seconds:.1f} s", data=result)
