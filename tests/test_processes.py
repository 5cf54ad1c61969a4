"""Real child processes, sessions and signals."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from tasks import processes


def start(workspace: Path, code: str, **environment: str) -> subprocess.Popen[str]:
    """A Python child that carries the workspace's mark; its first line says that it is ready."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, processes.MARK: str(workspace), **environment},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


GRANDCHILD = """
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(60)
"""


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_orphan_of_a_killed_parent_is_ended(tmp_path):
    parent = start(tmp_path, GRANDCHILD)
    orphan = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert not gone(orphan)
    began = time.monotonic()
    assert processes.end_leftovers(tmp_path) == 1
    assert gone(orphan)
    assert time.monotonic() - began < 10


def test_descendant_that_has_lost_the_mark_is_ended(tmp_path):
    # As Ray's agents do, which write their title over their environment.
    code = """
        import subprocess, sys
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)"], env={}, start_new_session=True
        )
        print(child.pid, flush=True)
        child.wait()
    """
    parent = start(tmp_path, code)
    child = int(parent.stdout.readline())
    assert processes.end_leftovers(tmp_path) == 2
    assert gone(child)
    assert gone(parent.pid)


def test_process_that_ignores_sigterm_is_killed(tmp_path):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    stubborn = start(tmp_path, code)
    stubborn.stdout.readline()
    assert processes.end_leftovers(tmp_path, patience=0.3) == 1
    assert gone(stubborn.pid)


def test_other_workspaces_and_other_marks_are_left_alone(tmp_path):
    other = start(tmp_path / "other", "import time; print(1, flush=True); time.sleep(60)")
    service = start(tmp_path / "x", "import time; print(1, flush=True); time.sleep(60)", SERVICE=str(tmp_path))
    try:
        other.stdout.readline()
        service.stdout.readline()
        assert processes.end_leftovers(tmp_path) == 0
        assert other.poll() is None
        assert service.poll() is None
        assert processes.end_leftovers(tmp_path, mark="SERVICE") == 1
        assert other.poll() is None
    finally:
        for child in (other, service):
            child.kill()
            child.wait()


def test_asker_and_its_ancestors_are_never_ended(tmp_path):
    code = f"""
        import subprocess, sys
        asker = "from pathlib import Path; from tasks.processes import end_leftovers; "
        asker += "print(end_leftovers(Path({str(tmp_path)!r})))"
        print(subprocess.run([sys.executable, "-c", asker], capture_output=True, text=True).stdout.strip(), flush=True)
    """
    parent = start(tmp_path, code)
    assert parent.stdout.readline().strip() == "0"
    assert parent.wait(10) == 0


def test_mark_environment_restarts_the_program_once(tmp_path):
    code = "import os, sys; from tasks.processes import MARK, mark_environment; mark_environment(); "
    code += "print(sys.argv[1:], os.environ[MARK])"
    environment = {key: value for key, value in os.environ.items() if key != processes.MARK}
    script = tmp_path / "program.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script), "a b", "c"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"['a b', 'c'] {tmp_path}\n"


def test_supervised_command_streams_and_logs(tmp_path):
    lines = []
    command = [sys.executable, "-c", "print('one'); import sys; print('two', file=sys.stderr)"]
    stopped = processes.run_supervised(command, log=tmp_path / "logs" / "x.log", timeout=30, on_line=lines.append)
    assert not stopped
    assert lines == ["one", "two"]
    assert (tmp_path / "logs" / "x.log").read_text() == "one\ntwo\n"


def test_failed_command_says_its_status_and_last_lines(tmp_path):
    command = [sys.executable, "-c", "print('the reason'); raise SystemExit(7)"]
    with pytest.raises(processes.CommandError, match=r"status 7(.|\n)*the reason"):
        processes.run_supervised(command, log=tmp_path / "x.log", timeout=30)


def test_time_limit_ends_grandchildren_in_their_own_sessions(tmp_path):
    pids = []
    with pytest.raises(processes.CommandError, match="limit"):
        processes.run_supervised(
            [sys.executable, "-c", textwrap.dedent(GRANDCHILD)],
            log=tmp_path / "x.log",
            timeout=1.5,
            on_line=lambda line: pids.append(int(line)),
        )
    assert len(pids) == 1
    assert gone(pids[0])


def test_command_is_asked_to_end_once_and_may_clean_up(tmp_path):
    code = """
        import signal, sys, time
        def clean(number, frame):
            print("asked", flush=True)
            time.sleep(0.7)
            print("cleaned", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, clean)
        print("ready", flush=True)
        time.sleep(60)
    """
    lines = []
    stopped = processes.run_supervised(
        [sys.executable, "-c", textwrap.dedent(code)],
        log=tmp_path / "x.log",
        timeout=60,
        on_line=lines.append,
        on_poll=lambda: "ready" in lines,
    )
    assert stopped
    assert lines == ["ready", "asked", "cleaned"]
