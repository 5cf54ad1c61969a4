"""The tool server as a child process: tools that misbehave, and workers that die."""

import asyncio
import re
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks import params
from tasks.agent.episode import Generation, run_episode
from tasks.agent.protocols import Call
from tasks.agent.setup import open_setup
from tasks.agent.toolbox import Limits, Result
from tasks.agent.toolbox import client as toolbox_client
from tasks.agent.toolbox.client import ToolClient
from tasks.errors import InputError
from tasks.params import Playing

LIMITS = Limits(seconds=1.0, characters=2000, parallel=3)
KINDS = ["process", pytest.param("thread", marks=pytest.mark.slow), pytest.param("ray", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, serve: Any) -> Iterator[Any]:
    with serve("--worker", request.param, "--workers", "2") as started:
        started.kind = request.param
        yield started.ready()


@pytest.fixture
def client(server: Any) -> ToolClient:
    return ToolClient(server.address, ["misbehave"], LIMITS)


def metric(server: Any, name: str) -> float:
    text = httpx.get(f"{server.address}/metrics").text
    (value,) = re.findall(rf"^forager_tool_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize(("text", "failure"), [("hang", "timeout"), ("raise", "raised"), ("number", "result")])
def test_a_broken_call_is_a_failure(server: Any, client: ToolClient, text: str, failure: str, ask: Any) -> None:
    before = metric(server, f'failures_total{{kind="{failure}"}}')
    (result,) = ask(client, text)  # one that hangs would do so for an hour
    assert (result.failure, result.text, result.passages) == (failure, "", ())
    assert metric(server, f'failures_total{{kind="{failure}"}}') == before + 1
    assert ask(client, "fine")[0].text.startswith("fine")


def test_a_flood_is_cut_by_the_server_and_once_more_by_the_client(server: Any, client: ToolClient, ask: Any) -> None:
    assert ask(client, "flood")[0].text == "x" * 2000
    wide = ToolClient(server.address, ["misbehave"], Limits(seconds=1.0, characters=10**9))
    assert ask(wide, "flood")[0].text == "x" * 65_536


def test_another_trajectorys_state_is_out_of_reach(client: ToolClient, ask: Any) -> None:
    # "a" and "c" have the same worker, or they could not even try.
    assert {zlib.crc32(name.encode()) % 2 for name in ("a", "c")} == {1}
    assert ask(client, "keep", trajectory="a")[0].text == "fine 1"
    (result,) = ask(client, "leak", trajectory="c")
    assert (result.failure, result.text) == ("state", "")


def test_what_cannot_be_had_and_parameters_that_are_wrong_come_through(
    server: Any, client: ToolClient, ask: Any
) -> None:
    before = {kind: metric(server, f'failures_total{{kind="{kind}"}}') for kind in ("unavailable", "spent")}
    results = ask(client, "unavailable", "spent", trajectory="without")
    assert [(one.failure, one.text) for one in results] == [("unavailable", ""), ("spent", "")]
    for kind, count in before.items():
        assert metric(server, f'failures_total{{kind="{kind}"}}') == count + 1
    with pytest.raises(InputError, match=rf"{server.address}: retrieval\.server: another corpus; start it anew"):
        ask(client, "wrong")
    assert ask(client, "fine", trajectory="after it")[0].text == "fine 1"


def test_the_state_of_a_trajectory_lasts_until_its_end(server: Any, client: ToolClient, ask: Any) -> None:
    before = metric(server, "trajectories")
    assert [ask(client, "fine", trajectory="t")[0].text for _ in range(2)] == ["fine 1", "fine 2"]
    assert ask(client, "fine", trajectory="u")[0].text == "fine 1"
    assert metric(server, "trajectories") == before + 2
    for name in ("t", "u", "t", "nobody"):
        asyncio.run(client.release(name))
    assert metric(server, "trajectories") == before
    assert ask(client, "fine", trajectory="t")[0].text == "fine 1"


def test_calls_of_a_turn_run_side_by_side_and_no_more_than_allowed(client: ToolClient, ask: Any) -> None:
    results = ask(client, "hang", "raise", "fine", "surplus")
    assert [one.failure for one in results] == ["timeout", "raised", None, "surplus"]


def test_trajectories_run_side_by_side_in_a_worker(client: ToolClient) -> None:
    async def many() -> list[list[Result]]:
        return await asyncio.gather(*(client.call(f"n{n}", [Call("misbehave", "span 0.5")]) for n in range(32)))

    spans = [tuple(map(float, result.text.split())) for (result,) in asyncio.run(many())]
    # No more than one for each of the 2 workers, were they to take them in turn.
    assert max(sum(start <= moment < end for start, end in spans) for moment, _ in spans) > 2


def test_requests_of_a_trajectory_go_to_one_worker(server: Any, client: ToolClient, ask: Any) -> None:
    pids: dict[int, set[str]] = {0: set(), 1: set()}
    for name in map(str, range(10)):
        for _ in range(2):
            pids[zlib.crc32(name.encode()) % 2].add(ask(client, "pid", trajectory=name)[0].text)
    assert len(pids[0]) == len(pids[1]) == 1
    assert (pids[0] != pids[1]) == (server.kind != "thread")  # whose one toolbox has all trajectories


def test_a_process_that_ends_or_holds_the_gil_is_lost_and_the_next_call_finds_another(
    server: Any, client: ToolClient, ask: Any, eventually: Any
) -> None:
    if server.kind == "thread":
        pytest.skip("a thread has no process of its own")
    for text in ("exit", "gil 600"):
        restarts, lost = metric(server, "worker_restarts_total"), metric(server, "trajectories_lost_total")
        eventually(client)
        (result,) = ask(client, text)
        assert (result.failure, result.text) == ("worker", "")
        # The state was lost with the process, and its count starts anew; trajectories of the other worker go on.
        assert eventually(client).text == "fine 1"
        assert metric(server, "worker_restarts_total") == restarts + 1
        assert metric(server, "trajectories_lost_total") > lost


@pytest.mark.parametrize("worker", [KINDS[0], KINDS[2]])
def test_a_worker_that_is_killed_fails_the_calls_that_wait_for_it_at_once(
    serve: Any, worker: str, tmp_path: Path, ask: Any
) -> None:
    with serve("--worker", worker, "--workers", "1", "--seconds", "600") as server:
        client = ToolClient(server.ready().address, ["misbehave"], Limits(seconds=600.0))
        pid = int(ask(client, "pid")[0].text)

        async def killed() -> list[Result]:
            call = asyncio.create_task(client.call("one", [Call("misbehave", f"hang {tmp_path / 'hangs'}")]))
            while not (tmp_path / "hangs").exists():
                await asyncio.sleep(0.01)
            psutil.Process(pid).kill()
            return await call

        start = time.perf_counter()
        (result,) = asyncio.run(killed())
        assert result.failure == "worker" and time.perf_counter() - start < 60  # of the 600 that it had
        assert int(ask(client, "pid")[0].text) != pid


@pytest.mark.slow
def test_a_thread_that_holds_the_gil_holds_the_server_and_yet_no_episode(
    serve: Any, monkeypatch: pytest.MonkeyPatch, ask: Any, eventually: Any
) -> None:
    monkeypatch.setattr(toolbox_client, "MARGIN", 0.5)  # seconds
    with serve("--worker", "thread") as server:
        client = ToolClient(server.ready().address, ["misbehave"], Limits(seconds=0.5))
        # The server itself would say `timeout`, once it could.
        assert ask(client, "gil 4")[0].failure == "worker"
        assert eventually(client).failure is None
        # Nor does one that ends the server.
        assert [ask(client, text)[0].failure for text in ("exit", "fine")] == ["worker", "worker"]
        asyncio.run(client.release("one"))


@pytest.mark.slow
def test_ray_starts_its_workers_out_of_a_folder_with_a_space(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    # Only workers with a runtime environment go through the shell command into which Ray pastes the interpreter.
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "venv").symlink_to(sys.prefix)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a b" / "venv" / "bin" / Path(sys.executable).name))
    with serve("--worker", "ray", "--workers", "1") as server:
        client = ToolClient(server.ready().address, ["misbehave"], LIMITS)
        assert eventually(client).text == "fine 1"


def test_an_answer_in_anothers_name_is_a_failure(serve: Any, ask: Any) -> None:
    with serve("--worker", "process", "--workers", "1") as server:
        client = ToolClient(server.ready().address, ["misbehave"], LIMITS)
        (result,) = ask(client, "forge two", trajectory="one")
        assert (result.failure, result.text, result.done) == ("worker", "", False)
        assert ask(client, "fine", trajectory="two")[0].text == "fine 1"


TURNS = ["raise", "tags", "hang", "flood", "exit"]


def test_an_episode_goes_on_whatever_its_tools_do(
    server: Any, client: ToolClient, tokenizer: Any, question_row: Any, defaults: params.Params, eventually: Any
) -> None:
    turns = [text for text in TURNS if text != "exit" or server.kind != "thread"]
    eventually(client)
    room = {"tool_seconds": 1.0, "max_turns": 9, "max_response_tokens": 6000, "max_turn_tokens": 400}
    episode = defaults.episode.model_copy(update=room)
    tools = defaults.tools.model_copy(update={"names": ["misbehave"], "server": server.address})
    playing = Playing.of(defaults.model_copy(update={"episode": episode, "tools": tools}))
    setup = open_setup(playing, index=None, tokenizer=tokenizer)
    said = [f"<misbehave> {text} </misbehave>" for text in turns] + ["<answer> Kashi </answer>"]
    waiting = [tokenizer.encode(turn, add_special_tokens=False) for turn in said]

    async def generate(prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        return Generation(waiting.pop(0), None)

    row = question_row("Who?", ["Rove"], ["Rove"], ["p1"])
    trajectory = asyncio.run(run_episode(row, generate=generate, setup=setup))
    failures = {"raise": "raised", "tags": None, "hang": "timeout", "flood": None, "exit": "worker"}
    assert [call.failure for call in trajectory.calls] == [failures[text] for text in turns]
    assert (trajectory.stop_reason, trajectory.answer, trajectory.em) == ("answer", "Kashi", 0.0)
    shown = [one.text for one in trajectory.segments if one.kind == "observation"]
    assert len(shown) == len(turns)
    for text in shown:
        assert text.count("</information>") <= 1 and "</information>" not in text.rstrip()[: -len("</information>")]
        assert not re.search(r"<answer>|<misbehave>|<\|im_end\|>", text)


def child_of(path: Path) -> list[psutil.Process]:
    """The process whose number is in a file; none where it has ended."""
    deadline = time.monotonic() + 10
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pid = int(path.read_text())
    return [psutil.Process(pid)] if psutil.pid_exists(pid) else []


@pytest.mark.slow
def test_what_tools_start_ends_with_their_worker_and_with_the_server(
    serve: Any, gone: Callable[..., bool], tmp_path: Path, ask: Any, eventually: Any, post_and_leave: Any
) -> None:
    with serve("--worker", "process", "--workers", "2") as server:
        client = ToolClient(server.ready().address, ["misbehave"], LIMITS)
        assert ask(client, f"start {tmp_path / 'child'}")[0].failure == "worker"
        assert gone(child_of(tmp_path / "child"))
        eventually(client)
        children = [psutil.Process(int(ask(client, "start", trajectory=name)[0].text)) for name in ("0", "two")]
        assert ask(client, "gil 600", trajectory="0")[0].failure == "worker"
        eventually(client, "0")
        children.append(psutil.Process(int(ask(client, "start", trajectory="0")[0].text)))  # in the next worker
        assert gone(children[:1]) and all(child.is_running() for child in children[1:])
        family = server.family()
        assert set(children[1:]) < set(family)
        post_and_leave(server.address, "two", "gil 600")  # nor can a tool that holds the GIL hold up the end
        assert server.end(signal.SIGKILL)[0] == -signal.SIGKILL
        assert gone(family)


@pytest.mark.slow
def test_a_worker_is_lost_with_its_process_whoever_holds_its_socket(serve: Any, tmp_path: Path, ask: Any) -> None:
    with serve("--worker", "process", "--workers", "1", "--seconds", "60") as server:
        client = ToolClient(server.ready().address, ["misbehave"], Limits(seconds=60.0))
        start = time.perf_counter()
        assert ask(client, f"fork {tmp_path / 'child'}")[0].failure == "worker"
        assert time.perf_counter() - start < 30  # 62 s, were it waited for until it is silent for too long
        (child,) = child_of(tmp_path / "child")
        assert ask(client, "fine")[0].text == "fine 1" and child.is_running()
        child.kill()


@pytest.mark.slow
def test_a_call_after_a_worker_has_died_waits_for_the_next(serve: Any, ask: Any) -> None:
    with serve("--worker", "process", "--workers", "1", "--seconds", "60") as server:
        client = ToolClient(server.ready().address, ["misbehave"], Limits(seconds=60.0))
        for _ in range(3):
            assert ask(client, "exit")[0].failure == "worker"
            assert ask(client, "fine", trajectory="other")[0].text == "fine 1"
        assert metric(server, "worker_restarts_total") == 3
