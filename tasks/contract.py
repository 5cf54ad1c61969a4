"""What every stage keeps to: parameters in, outputs written aside and renamed, one MLflow run, exit codes.

A stage module holds one function `run(stage) -> figures` and ends with `main("NAME", run)`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

import tasks.quiet  # noqa: F401  before any engine is imported
from tasks import params as parameters
from tasks import processes
from tasks.errors import CrashError, InputError, exit_on_input_error
from tasks.files import write_json

# The sections of the parameters and the earlier stages whose outputs each stage reads: dvc.yaml says
# the same (tests/test_contract.py holds them together), and a stage can reach no others.
SECTIONS: dict[str, tuple[str, ...]] = {
    "ingest": ("seed", "environment", "episode", "tools", "ingest"),
    "policy": ("seed", "episode", "tools", "policy"),
    "validate": ("episode", "tools", "validate"),
    "index": ("environment", "retrieval", "index"),
    "demos": ("seed", "environment", "retrieval", "episode", "tools", "demos"),
    "sft": ("seed", "environment", "retrieval", "episode", "tools", "sft"),
    "rl": ("seed", "environment", "retrieval", "episode", "tools", "rl", "verl"),
    "merge": ("merge",),
    "rft": ("seed", "episode", "rft"),
    "evaluate": ("seed", "environment", "retrieval", "episode", "tools", "evaluate"),
    "gate": ("gate",),
}
UPSTREAM: dict[str, tuple[str, ...]] = {
    "ingest": (),
    "policy": ("ingest",),
    "validate": ("ingest", "policy"),
    "index": ("ingest", "validate"),
    "demos": ("ingest", "index", "policy"),
    "sft": ("demos", "index", "policy"),
    "rl": ("ingest", "demos", "index", "sft"),
    "merge": ("rl", "sft"),
    "rft": ("sft", "rl", "merge"),
    "evaluate": ("ingest", "index", "policy", "sft", "rl", "merge", "rft"),
    "gate": ("ingest", "policy", "validate", "index", "demos", "sft", "rl", "merge", "rft", "evaluate"),
}

Figures = dict[str, Any]


class Parameters:
    """The parameters a stage may read: its declared sections, and no others."""

    def __init__(self, stage: str, params: parameters.Params) -> None:
        for section in SECTIONS[stage]:
            setattr(self, section, getattr(params, "validate_" if section == "validate" else section))
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"stage {self._stage} reads section {name!r}, which SECTIONS and dvc.yaml do not give it")

    def plain(self) -> dict[str, Any]:
        """The sections as plain values, for logging and fingerprints."""
        dump = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        return {k: v.model_dump(mode="json") if hasattr(v, "model_dump") else v for k, v in dump.items()}


class Stage:
    """One run of a stage.

    Attributes:
        name: the stage's name.
        params: the sections that the stage reads.
        profile: name of the profile in force.
        out: folder that takes the outputs; renamed to `data/NAME` when the stage has ended well.
        track: the stage's MLflow run (`tasks.tracking.Run`).
    """

    def __init__(self, name: str, params: parameters.Params, out: Path, track: Any) -> None:
        self.name, self.profile, self.out, self.track = name, params.profile, out, track
        self.params = Parameters(name, params)
        self._start = time.monotonic()
        self._when_done: list[Callable[[], None]] = []

    def when_done(self, action: Callable[[], None]) -> None:
        """Do something once the outputs are in place: dropping resumable state, which until then may be needed."""
        self._when_done.append(action)

    def finish(self) -> None:
        """Carry out what `when_done` has collected."""
        for action in self._when_done:
            action()

    def say(self, text: str) -> None:
        """One line of progress with the time since the stage's start."""
        print(f"{self.name}: [{time.monotonic() - self._start:5.0f} s] {text}", flush=True)

    def input(self, stage: str, *parts: str) -> Path:
        """Path of an earlier stage's output.

        Raises:
            InputError: it isn't there.
        """
        if stage not in UPSTREAM[self.name]:
            raise AttributeError(f"stage {self.name} reads data/{stage}, which UPSTREAM and dvc.yaml do not give it")
        path = Path("data", stage, *parts)
        if not path.exists():
            raise InputError("output of an earlier stage is missing", where=str(path), mend=f"run `dvc repro {stage}`")
        return path

    def fingerprint(self) -> str:
        """Hash of the stage's parameters, inputs and code: what resumable state is filed under."""
        digest = hashlib.sha256(json.dumps(self.params.plain(), sort_keys=True).encode())
        inputs = [Path("data", upstream) for upstream in UPSTREAM[self.name]]
        for folder in [*inputs, *_code_of(self.name)]:
            # Python and numba leave what they compile in __pycache__, while the stage runs.
            files = (p for p in (folder, *folder.rglob("*")) if p.is_file() and p.parent.name != "__pycache__")
            for path in sorted(files):
                digest.update(str(path).encode())
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]


def _code_of(stage: str) -> list[Path]:
    """The files and folders of code that dvc.yaml lets the stage depend on."""
    stages = yaml.safe_load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"]
    return [Path(path) for path in stages[stage]["deps"] if path.startswith("tasks/")]


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold the workspace's stage lock, which the kernel frees however the process ends.

    A stage whose parent has died (the dvc that ran it was killed) is a leftover, and is ended.

    Raises:
        InputError: another stage is at work here.
    """
    path = Path(".forager/stage.lock")
    path.parent.mkdir(exist_ok=True)
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid, parent, other = lock.read().split()
            if processes.parent_of(int(pid)) == int(parent):
                raise InputError(f"stage {other} is at work in this folder (pid {pid})", mend="wait for it") from None
            processes.end_leftovers()
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"{os.getpid()} {os.getppid()} {name}")
        lock.flush()
        yield


def _turn_sigterm_into_exit(number: int, frame: FrameType | None) -> None:
    # A SystemExit unwinds the with-blocks: children are ended and MLflow's run is closed as failed.
    raise SystemExit(128 + number)


def main(name: str, run: Callable[[Stage], Figures]) -> None:
    """Run a stage under the contract; the body of every stage's `if __name__ == "__main__"`.

    Exit codes: 0 done, 2 wrong input or parameters (one line, no traceback), 1 anything else.
    """
    with at_work(name) as params:
        _run_alone(name, run, params)


@contextlib.contextmanager
def at_work(name: str) -> Iterator[parameters.Params]:
    """The workspace for a stage, or for a command of its that runs engines but has no outputs: nobody else at work.

    What an earlier, killed run has left behind is ended, and so is what this one leaves; wrong input or parameters
    end the process with code 2 and one line, a server of its own that crashes at its start with code 1 and one line.

    Yields:
        the parameters in force.
    """
    with exit_on_input_error(name):
        params = parameters.load()
    processes.mark_environment()
    signal.signal(signal.SIGTERM, _turn_sigterm_into_exit)
    with exit_on_input_error(name), _alone(name):
        ended = processes.end_leftovers()
        if ended:
            print(f"{name}: ended {ended} processes that an earlier, killed run had left behind", flush=True)
        try:
            yield params
        except CrashError as error:
            raise SystemExit(f"{name}: error: {error}") from None  # the traceback that matters is shown already
        finally:
            processes.end_leftovers()


def _run_alone(name: str, run: Callable[[Stage], Figures], params: parameters.Params) -> None:
    from tasks import tracking

    out = Path("data", name)
    aside = Path("data", f".{name}.partial")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        with tracking.stage_run(name, Parameters(name, params).plain(), params.profile, UPSTREAM[name]) as track:
            stage = Stage(name, params, aside, track)
            figures = run(stage)
            write_json(aside / "figures.json", figures)
            track.log_figures(figures)
            shutil.rmtree(out, ignore_errors=True)
            os.replace(aside, out)
            write_json(Path("metrics", f"{name}.json"), {**figures, "run_id": track.run_id})
            stage.finish()
            stage.say("done")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
