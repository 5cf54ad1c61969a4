"""The same application under Ray Serve, on a Ray of this machine."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(index: Path, retrieval: Any, tmp_path_factory: pytest.TempPathFactory):
    import ray
    from ray import serve

    from tasks.retrieval.ray_serve import application
    from tasks.retrieval.service.settings import Settings
    from tasks.servers import listen

    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    root = str(Path(__file__).parents[2])
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        logging_level="warning",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": root}},
    )
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(application(Settings.of(retrieval("bm25"), index), replicas=2, cores=0.1))
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()


def replicas() -> set[int]:
    found = set()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie
            if "ServeReplica" in " ".join(one.cmdline()):
                found.add(one.pid)
    return found


def test_replicas_answer_in_search_r1s_form(address: str) -> None:
    reply = httpx.post(f"{address}/retrieve", json={"queries": ["capital of Italy", "city"], "topk": 1}, timeout=30)
    assert [[one["id"] for one in found] for found in reply.json()["result"]] == [["p0"], ["p1"]]
    assert httpx.get(f"{address}/ready").json()["passages"] == 4
    bad = httpx.post(f"{address}/retrieve", json={"queries": []})
    assert bad.status_code == 400 and "queries" in bad.json()["detail"]
    assert "forager_retrieval_requests_total" in httpx.get(f"{address}/metrics").text


def test_every_request_gets_its_own_answer(address: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:

            async def ask(number: int) -> None:
                asked = ["capital Italy", "city"] if number % 2 else ["city", "word7"]
                reply = await client.post("/retrieve", json={"queries": asked, "topk": 1})
                wanted = [["p0"], ["p1"]] if number % 2 else [["p1"], ["p3"]]
                assert [[one["id"] for one in found] for found in reply.json()["result"]] == wanted

            await asyncio.gather(*(ask(number) for number in range(64)))

    asyncio.run(run())


def test_a_lost_replica_has_a_successor(address: str) -> None:
    before = replicas()
    assert len(before) == 2
    victim = before.pop()
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while victim in (now := replicas()) or len(now) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    reply = httpx.post(f"{address}/retrieve", json={"queries": ["capital of Italy"], "topk": 1}, timeout=60)
    assert reply.json()["result"][0][0]["id"] == "p0"
