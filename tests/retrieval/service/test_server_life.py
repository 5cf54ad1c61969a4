"""The retrieval server as a child process: how it starts, what it survives, and how it ends."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

# Each of these starts a server of its own: a second or two of a core.
ENDINGS = [(signal.SIGTERM, 0), (signal.SIGKILL, -9), pytest.param(signal.SIGINT, 0, marks=pytest.mark.slow)]


def test_a_killed_worker_has_a_successor_and_no_client_sees_it(server: Any) -> None:
    for _ in range(2):
        before = server.metric("retrieval_worker_restarts_total")
        victim = server.workers()[0]
        victim.kill()
        assert [server.ask("Rome").status_code for _ in range(10)] == [200] * 10
        deadline = time.monotonic() + 30
        while server.metric("retrieval_worker_restarts_total") == before:
            assert time.monotonic() < deadline
        server.whole()
        assert len(server.workers()) == 2 and victim.pid not in [one.pid for one in server.workers()]


def test_stopped_workers_are_replaced_and_their_queries_answered(server: Any) -> None:
    stopped = server.workers()
    for worker in stopped:
        worker.suspend()
    start = time.monotonic()
    assert server.ask("capital of Italy", "city").json()["result"][1][0]["id"] == "p1"
    assert time.monotonic() - start > 1  # they were waited for
    server.whole()
    assert not {one.pid for one in stopped} & {one.pid for one in server.workers()}


def test_a_lost_nursery_has_a_successor(server: Any) -> None:
    server.nursery().kill()
    assert server.ask("capital of Italy").json()["result"][0][0]["id"] == "p0"
    server.whole()
    assert len(server.workers()) == 2


def test_a_deadline_and_a_full_queue_are_503s_with_retry_after(serve: Any) -> None:
    with serve("--workers", "1", "--queue", "4", "--cache", "1") as server:
        server.ready()
        assert server.ask("a", "b", "c", "d", "e").status_code == 413  # it could never wait
        known = server.ask("Italy").content
        server.workers()[0].suspend()

        async def flood() -> list[httpx.Response]:
            async with httpx.AsyncClient(base_url=server.address, timeout=30) as client:
                wanted = (client.post("/retrieve", json={"queries": [f"q{n}"]}) for n in range(9))
                return await asyncio.gather(*wanted)

        start = time.monotonic()
        late = server.ask("Rome", headers={"x-deadline-seconds": "0.2"})
        assert late.status_code == 503 and time.monotonic() - start < 2
        replies = asyncio.run(flood())  # one is with the worker, four wait
        refused = [reply for reply in replies if reply.status_code == 503]
        assert {reply.status_code for reply in replies} == {200, 503} and 4 <= len(refused) <= 5
        for reply in (late, *refused):
            assert reply.headers["retry-after"] == "1" and reply.json()["detail"]
        assert server.ask("Italy").content == known
        assert server.metric("retrieval_rejected_total") == len(refused)
        assert server.metric("retrieval_deadline_misses_total") == 1
        assert server.metric("retrieval_cache_hits_total") == 1


def test_queries_of_a_client_that_has_gone_are_dropped(serve: Any) -> None:
    with serve("--workers", "1") as server:
        server.ready().workers()[0].suspend()
        asked = json.dumps({"queries": ["Rome"] * 7}).encode()
        head = b"POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        connections = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(12)]
        for connection in connections:
            connection.sendall(head % len(asked) + asked)
        for connection in connections:
            connection.close()
        deadline = time.monotonic() + 30
        while server.metric("retrieval_disconnected_total") < 12:
            assert time.monotonic() < deadline
        assert server.metric("retrieval_queue_queries") == 0


@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_it_ends_by_a_signal_and_leaves_no_process(serve: Any, gone: Any, number: int, code: int) -> None:
    with serve("--workers", "2") as server:
        server.ready().ask("Rome")
        family = server.family()
        assert len(family) == 3
        family[-1].suspend()  # one that cannot end by itself
        status, said = server.end(number)
        assert status == code and "Traceback" not in said, said
        assert gone(family)


def test_requests_under_way_are_answered_before_it_ends(serve: Any, gone: Any) -> None:
    with serve("--workers", "1") as server:
        server.ready()
        family = server.family()
        server.workers()[0].suspend()

        async def run() -> httpx.Response:
            async with httpx.AsyncClient(timeout=30) as client:
                asking = asyncio.create_task(client.post(f"{server.address}/retrieve", json={"queries": ["Rome"]}))
                await asyncio.sleep(0.5)
                server.process.send_signal(signal.SIGTERM)
                return await asking

        assert asyncio.run(run()).json()["result"][0][0]["id"] == "p0"
        # Not signalled once more: an interpreter that is ending has no handlers left.
        assert server.process.wait(30) == 0 and gone(family)


def test_it_ends_with_its_stage(index: Path, retrieval: Any, gone: Any) -> None:
    from tasks.retrieval.service.settings import Settings

    line = Settings.of(retrieval("bm25"), index).dump()
    child = subprocess.Popen(
        [sys.executable, "-m", "tasks.retrieval.service.command", "--stage"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()
    assert child.stdout.readline().startswith("http://127.0.0.1:")
    family = psutil.Process(child.pid).children(recursive=True)
    child.stdin.close()
    assert child.wait(30) == 0 and child.stdout.read() == "" and gone(family)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retriever", "wikipedia"], "the server searches an index"),
        (["--retriever", "qdrant"], "serves one process at a time"),
        (["--retriever", "colbert"], "retriever"),
        (["--topk", "101"], "retrieval.topk: at most 100"),
        (["--workers", "0"], "retrieval.workers"),
        (["--seconds", "-1"], "retrieval.seconds"),
        (["--queue", "0"], "the queue"),
        (["--port", "70000"], "--port"),
        (["--host", "nowhere.invalid"], "--host"),
        (["--host", ""], "--host"),
        (["--index", "/nowhere"], "no index here"),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else None,
)
def test_what_cannot_be_served_is_one_line_and_code_2(
    capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, index: Path, arguments: list[str], said: str
) -> None:
    from tasks import servers
    from tasks.retrieval.service import command

    monkeypatch.chdir(Path(__file__).parents[3])
    monkeypatch.setattr(servers, "take_output", lambda: sys.stdout)
    with pytest.raises(SystemExit) as caught:
        command.run(["--index", str(index), *arguments])
    assert caught.value.code == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("retrieval_server: error: ") and said in line


def test_an_index_that_cannot_be_opened_is_one_line_and_code_2(serve: Any, index: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "index"
    shutil.copytree(index, broken)
    shutil.rmtree(broken / "bm25")
    with serve("--index", str(broken)) as server:
        status, said = server.process.wait(60), server.process.communicate()
        assert (status, said[0]) == (2, "") and "Traceback" not in said[1]
