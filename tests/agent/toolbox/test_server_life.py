"""The tool server as a child process: how it opens, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks.agent.toolbox import Limits
from tasks.agent.toolbox.client import ToolClient
from tasks.errors import InputError

LIMITS = Limits(seconds=1.0, characters=2000, parallel=3)
KINDS = ["process", pytest.param("thread", marks=pytest.mark.slow), pytest.param("ray", marks=pytest.mark.slow)]
# Each of these starts a server of its own: a second or two of a core.
ENDINGS = [(signal.SIGTERM, 0), (signal.SIGKILL, -9), pytest.param(signal.SIGINT, 0, marks=pytest.mark.slow)]


STARTS = """
import sys
from conftest import ServerProcess
server = ServerProcess("tasks.tool_server", "--import", "misbehaving", "--tools", "misbehave", PYTHONPATH=sys.argv[1])
print(server.ready().process.pid, flush=True)
input()
"""


def test_it_is_ready_only_when_its_workers_are(serve: Any, tmp_path: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with serve("--port", str(port), tools="slow", SLOW=str(tmp_path / "go")) as server:
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline and server.process.poll() is None
            try:
                alive = httpx.get(f"{address}/health")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        assert alive.status_code == 200
        refused = httpx.get(f"{address}/ready")
        assert (refused.status_code, refused.json()) == (503, {"detail": "0 of 2 workers are ready"})
        with pytest.raises(InputError, match="is not ready"):
            ToolClient(address, ["slow"], LIMITS)
        (tmp_path / "go").touch()
        assert server.ready().address == address
        assert httpx.get(f"{address}/ready").status_code == 200
        (schema,) = ToolClient(address, ["slow"], LIMITS).schemas
        assert schema["function"]["description"] == "opens slowly"


@pytest.mark.parametrize("worker", KINDS[:2])
@pytest.mark.parametrize(
    ("tool", "code", "line"),
    [
        ("refuses", 2, "tool_server: error: SERVICE_KEY: no key for this service"),
        pytest.param(
            "misbehaves",
            2,
            "tool_server: error: tools.names: no tool 'misbehaves'; did you mean 'misbehave'?",
            marks=pytest.mark.slow,
        ),
        ("crashes", 2, "misbehaving.py, line LINE: tool 'crashes' cannot be used: RuntimeError: a slip of the pen"),
        pytest.param(
            "speechless",
            2,
            "misbehaving.py, line LINE: tool 'speechless' cannot be used: RuntimeError: no words",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_opened_ends_it_with_one_line(serve: Any, worker: str, tool: str, code: int, line: str) -> None:
    with serve("--worker", worker, tools=tool) as server:
        assert server.process.wait(60) == code
        (said,) = re.sub(r"line \d+:", "line LINE:", server.end()[1]).splitlines()
        assert said.startswith("tool_server: error: ") and said.endswith(line)


@pytest.mark.slow
def test_a_tool_that_ends_its_process_on_opening_is_named(serve: Any) -> None:
    with serve(tools="misbehave exits") as server:
        assert server.process.wait(60) == 2
        assert server.end()[1].strip() == (
            "tool_server: error: tools.names: a worker of the tool server did not start: "
            "tool 'exits': the process ended with status 4 before it was open"
        )


def test_a_port_in_use_is_one_line(serve: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serve("--port", str(port)) as server:
            assert server.process.wait(60) == 2
            assert f"--port: cannot listen at 127.0.0.1, port {port}" in server.end()[1]


@pytest.mark.parametrize("worker", KINDS)
@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_it_leaves_nobody_behind(
    serve: Any, gone: Callable[..., bool], worker: str, number: int, code: int, ask: Any, post_and_leave: Any
) -> None:
    with serve("--worker", worker) as server:
        client = ToolClient(server.ready().address, ["misbehave"], Limits(seconds=0.2))
        children = server.family()
        assert bool(children) == (worker != "thread")
        if worker == "process":
            # Neither a worker that holds the GIL nor a call that hangs holds up the end.
            ask(client, "hang", trajectory="0")
            post_and_leave(server.address, "1", "gil 600")
        assert server.end(number)[0] == code
        # Ray's agents take about a minute to see that their raylet was killed.
        assert gone(children, 300)


@pytest.mark.slow
def test_it_ends_with_the_tests_that_started_it(gone: Callable[..., bool]) -> None:
    root = Path(__file__).parents[3]
    tests = subprocess.Popen(
        [sys.executable, "-c", STARTS, os.pathsep.join([str(Path(__file__).parent), str(root)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "tests"), str(root)])},
    )
    server = psutil.Process(int(tests.stdout.readline()))
    family = [server, *server.children(recursive=True)]
    tests.kill()
    tests.wait()
    ended = gone(family)
    for one in family if not ended else []:
        one.kill()
    assert len(family) > 1 and ended


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["process", "thread"])
def test_what_tools_print_as_they_open_is_no_address(serve: Any, worker: str) -> None:
    with serve("--worker", worker, tools="prints") as server:
        assert httpx.get(f"{server.ready().address}/ready").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stdout.read() == ""
        assert "http://127.0.0.1:1\nloading\n" in server.process.stderr.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--port", "65536"], "--port: must be 0 to 65535, not 65536"),
        (["--port", "-1"], "--port: must be 0 to 65535, not -1"),
        (["--host", "203.0.113.1"], "--host: cannot listen at 203.0.113.1, port 0: Cannot assign requested address"),
        (["--host", "."], "--host: cannot listen at ., port 0: "),
        (["--import", ""], "--import: '' is no module's name"),
        (["--import", ".x"], "--import: '.x' is no module's name"),
        (["--import", "misbehaving.x"], "--import: there is no module 'misbehaving.x'"),
    ],
)
def test_a_wrong_argument_is_one_line(serve: Any, arguments: list[str], line: str) -> None:
    with serve("--worker", "thread", *arguments) as server:
        assert server.process.wait(60) == 2
        (said,) = server.end()[1].splitlines()
        assert said.startswith(f"tool_server: error: {line}")


@pytest.mark.slow
def test_it_listens_at_an_address_of_the_next_protocol_too(serve: Any, ask: Any) -> None:
    with serve("--worker", "thread", "--host", "::1") as server:
        address = server.process.stdout.readline().strip()
        assert re.fullmatch(r"http://\[::1\]:\d+", address), server.end()
        assert ask(ToolClient(address, ["misbehave"], LIMITS), "fine")[0].text == "fine 1"


def test_what_tools_print_is_no_address(serve: Any, ask: Any) -> None:
    with serve("--worker", "thread") as server:
        client = ToolClient(server.ready().address, ["misbehave"], LIMITS)
        ask(client, "print")
        out, err = server.process.stdout, server.process.stderr
        server.process.send_signal(signal.SIGTERM)
        assert (out.read(), "http://127.0.0.1:1" in err.read()) == ("", True)
