"""The servers of a stage, for retrieval and for tools: started, somebody's, or none."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks import params
from tasks.agent.protocols import Call
from tasks.agent.setup import open_tools
from tasks.agent.toolbox import serving as module
from tasks.agent.toolbox.serving import serving
from tasks.errors import CrashError, InputError
from tasks.params import Playing
from tasks.processes import MARK, marked_processes

ROOT = Path(__file__).parents[3]
PASSAGES = [("p1", "Kashi", "Kashi was born in Rove.", None), ("p2", "Rove", "Rove is a city.", None)]


@pytest.fixture(scope="module")
def index(build_index: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("index") / "index", PASSAGES)


@pytest.fixture
def section(defaults: params.Params, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(ROOT)
    said: list[str] = []

    def make(index: Path | None = None, **tools: Any) -> Any:
        section = defaults.tools.model_copy(update=tools)
        return serving(Playing.of(defaults.model_copy(update={"tools": section})), index=index, say=said.append)

    return make


def test_without_a_server_the_section_stays_as_it_is(section: Any, defaults: params.Params) -> None:
    with section() as playing:
        assert playing == Playing.of(defaults)


@pytest.mark.parametrize("worker", ["process", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_stages_own_server_searches_as_the_process_itself_does_and_ends_with_it(
    section: Any,
    defaults: params.Params,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    gone: Any,
    worker: str,
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))

    def found(playing: Playing) -> Any:
        opened = open_tools(playing, index)
        results = asyncio.run(opened.call("one", [Call("search", "where was Kashi born?"), Call("search", "")]))
        return [one.after(0.0) for one in results], opened.names, opened.schemas

    with section(index, server="start", worker=worker) as playing:
        assert playing.tools.server.startswith("http://127.0.0.1:")
        assert found(playing) == found(Playing.of(defaults))
        assert [one.failure for one in found(playing)[0]] == [None, "arguments"]
        marked = marked_processes(tmp_path)
        assert worker == "ray" or len(marked) == 1 + 2 * defaults.tools.workers  # each has a keeper
    assert marked and gone(marked)


def test_a_retrieval_server_comes_first_and_the_tools_search_by_it(
    defaults: params.Params, index: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gone: Any
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(MARK, str(tmp_path))
    asked = [Call("search", "where was Kashi born?"), Call("search", "nothing of the sort")]

    def found(playing: Playing) -> list[Any]:
        return [one.after(0.0) for one in asyncio.run(open_tools(playing, index).call("one", asked))]

    update = {"retrieval": defaults.retrieval.model_copy(update={"server": "start", "workers": 1}),
              "tools": defaults.tools.model_copy(update={"server": "start", "workers": 1})}  # fmt: skip
    said: list[str] = []
    with serving(Playing.of(defaults.model_copy(update=update)), index=index, say=said.append) as playing:
        retrieval, tools = playing.retrieval.server, playing.tools.server
        assert said[0].startswith(f"retrieval server at {retrieval}") and said[1].startswith(f"tool server at {tools}")
        direct = playing.model_copy(update={"tools": defaults.tools})  # the tool here, the search there
        assert found(playing) == found(direct) == found(Playing.of(defaults))
        assert "forager_retrieval" in httpx.get(f"{retrieval}/metrics").text
        marked = marked_processes(tmp_path)
    assert marked and gone(marked)


def test_it_ends_when_the_stage_fails(section: Any, index: Path, gone: Any) -> None:
    before = set(psutil.Process().children())
    with pytest.raises(httpx.ConnectError), section(index, server="start", worker="thread"):
        httpx.get("http://127.0.0.1:1")
    assert gone([one for one in psutil.Process().children() if one not in before], 5)


def test_what_it_cannot_open_is_the_stages_own_error(section: Any) -> None:
    with (
        pytest.raises(InputError, match=r"tool server: .* no tool 'serach'; did you mean 'search'\?"),
        section(server="start", names=["serach"]),
    ):
        pass


def test_a_server_that_is_not_ready_in_time_is_an_error(
    section: Any, index: Path, monkeypatch: pytest.MonkeyPatch, gone: Any
) -> None:
    monkeypatch.setattr(module, "START", 0.05)  # seconds
    before = set(psutil.Process().children())
    with pytest.raises(InputError, match="was not ready after"), section(index, server="start"):
        pass
    assert gone([one for one in psutil.Process().children() if one not in before], 5)


def test_a_server_that_crashes_is_no_input_error(
    section: Any, index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(CrashError) as caught, section(index, server="start"):
        pass
    said = [line.strip() for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert len(said) > 3  # all of it is shown as well
    assert str(caught.value) == (
        f"the tool server ended with status 1 before it was ready; its last lines: {' | '.join(said[-3:])}"
    )


def test_somebodys_server_must_be_ready(section: Any, serve: Any) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *args: Any) -> None:
            pass

    with serve("--worker", "thread") as server:
        with section(server=server.ready().address + "/") as playing:
            assert httpx.get(f"{playing.tools.server}ready").status_code == 200
        assert httpx.get(f"{server.address}/ready").status_code == 200  # it is not ours to end
    with pytest.raises(InputError, match=r"tools\.server: no tool server answers"), section(server=server.address):
        pass
    other = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
    with (
        pytest.raises(InputError, match="is no tool server of this project"),
        section(server=f"http://127.0.0.1:{other.server_port}"),
    ):
        pass
    with (
        pytest.raises(InputError, match=r"tools\.server: no tool server answers at http://\."),
        section(server="http://."),
    ):
        pass
    other.shutdown()
    other.server_close()


STAGE = """
import sys, time
from pathlib import Path
from tasks import params
from tasks.agent.toolbox.serving import serving
content = params.overlay(params.resolve("tiny"), {"tools": {"server": "start", "worker": sys.argv[2]}})
playing = params.Playing.of(params.parse(content, where="tiny"))
with serving(playing, index=Path(sys.argv[1]), say=lambda line: print(line, flush=True)):
    time.sleep(600)
"""


@pytest.mark.parametrize("worker", ["process", "thread"])
def test_it_ends_when_the_stage_is_killed(index: Path, worker: str, gone: Any) -> None:
    stage = subprocess.Popen(
        [sys.executable, "-c", STAGE, str(index), worker],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert stage.stdout is not None
    assert stage.stdout.readline().startswith("tool server at http://127.0.0.1:")
    family = psutil.Process(stage.pid).children(recursive=True)
    assert len(family) == (5 if worker == "process" else 1)
    stage.send_signal(signal.SIGKILL)
    stage.wait()
    assert gone(family)
