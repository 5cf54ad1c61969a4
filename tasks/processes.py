"""Child processes that never outlive their stage.

Ray, vLLM and verl start processes in sessions of their own, so a process group is not enough to find
them. Every child inherits the environment instead: a stage marks its environment with its workspace,
and whatever carries the mark and is no ancestor of the asker is a leftover or a child.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import psutil

MARK = "FORAGER_WORKSPACE"
PATIENCE = 10.0  # seconds that a command gets for its own clean-up
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that started it ends; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def mark_environment() -> None:
    """Start this program anew with the workspace's mark, unless it carries it: /proc shows the first environment."""
    workspace = str(Path.cwd())
    if os.environ.get(MARK) != workspace:
        os.environ[MARK] = workspace
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ)


def _kin(process: psutil.Process) -> set[int]:
    return {process.pid, *(parent.pid for parent in process.parents())}


def marked_processes(workspace: Path | None = None, mark: str = MARK) -> list[psutil.Process]:
    """Processes that carry the workspace's mark, without this process and its ancestors."""
    wanted, kin, found = str(workspace or Path.cwd()), _kin(psutil.Process()), []
    for process in psutil.process_iter():
        try:
            if process.pid not in kin and process.environ().get(mark) == wanted:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def parent_of(pid: int) -> int | None:
    """Number of a process's parent; None when there is no such process."""
    try:
        return psutil.Process(pid).ppid()
    except psutil.NoSuchProcess:
        return None


def end_processes(processes: Sequence[psutil.Process], patience: float = 3.0) -> int:
    """Ask processes to end, and kill those that still live after `patience` seconds; returns how many there were."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, timeout=patience)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=patience)
    return len(processes)


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):  # it may end by itself between the look and the signal
        process.send_signal(number)


def end_leftovers(workspace: Path | None = None, patience: float = 3.0, mark: str = MARK) -> int:
    """End every process of the workspace but this one and its ancestors; returns how many there were.

    A process may be started while its elders are being ended, so the look is repeated.
    """
    ended = 0
    for _ in range(3):
        found = marked_processes(workspace, mark)
        if not found:
            break
        ended += end_processes(_with_descendants(found), patience)
    return ended


def _with_descendants(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Processes and all that descend from them: Ray's agents set their title over their environment, mark included."""
    kin, family = _kin(psutil.Process()), {process.pid: process for process in processes}
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            family |= {child.pid: child for child in process.children(recursive=True) if child.pid not in kin}
    return list(family.values())


class CommandError(RuntimeError):
    """A child command failed or ran past its time limit; holds the last lines it said."""


def run_supervised(
    command: Sequence[str],
    *,
    log: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    on_poll: Callable[[], bool] | None = None,
    stdout: Path | None = None,
) -> bool:
    """Run a command in a session of its own, its output into `log`, under a wall-clock limit.

    Args:
        command: program and arguments.
        log: file that takes stdout and stderr.
        timeout: seconds after which the command and all its descendants are killed.
        environment: variables added to this process's own.
        on_line: called with every line that the command prints.
        on_poll: called about once a second; returns True when the command is to be ended early.
        stdout: file that takes stdout alone, which then is neither in `log` nor given to `on_line`.

    Returns:
        True when `on_poll` ended the command, False when it ended by itself with status 0.

    Raises:
        CommandError: it exited with another status, or ran past `timeout`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with contextlib.ExitStack() as files:
        sink = files.enter_context(log.open("a", encoding="utf-8"))
        apart = None if stdout is None else files.enter_context(stdout.open("wb"))
        process = subprocess.Popen(
            list(command),
            stdout=subprocess.PIPE if apart is None else apart,
            stderr=subprocess.STDOUT if apart is None else subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            bufsize=1,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
        )
        faults: list[Exception] = []
        reader = threading.Thread(target=_copy_lines, args=(process, sink, on_line, faults), daemon=True)
        reader.start()
        stopped = False
        try:
            while process.poll() is None and not faults:
                if time.monotonic() - start > timeout:
                    raise CommandError(f"ran past its limit of {_minutes(timeout)}; output: {log}")
                if on_poll is not None and on_poll():
                    stopped = True
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            _end_group(process)
            reader.join(timeout=5)
    if faults:
        raise faults[0]
    if not stopped and process.returncode != 0:
        raise CommandError(f"exited with status {process.returncode}; output: {log}\n{last_lines(log)}")
    return stopped


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _copy_lines(
    process: subprocess.Popen[str], sink: TextIO, on_line: Callable[[str], None] | None, faults: list[Exception]
) -> None:
    said = process.stdout or process.stderr
    assert said is not None
    try:
        for line in said:
            sink.write(line)
            sink.flush()
            if on_line is not None:
                on_line(line.rstrip("\n"))
    except Exception as error:
        # Nobody would read on, and the command would wait for ever to be read.
        faults.append(error)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a command and what descends from it: asked once, so that its own clean-up runs undisturbed, then killed."""
    if process.poll() is not None:
        return  # its number may be another's by now; what it left behind carries the workspace's mark
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        # Those in sessions of their own were not asked: their elders may have ended them by now, or it is done below.
        psutil.wait_procs([member for member in family if _group(member) == process.pid], timeout=PATIENCE)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    end_processes([member for member in family if member.is_running()])


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None


def last_lines(log: Path, count: int = 30) -> str:
    """The last lines of a log file."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
