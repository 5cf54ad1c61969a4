import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tasks.retrieval.calls import in_time

FORKED = """
import asyncio, os
from tasks.retrieval.calls import in_time
async def one(): return 1
assert in_time(one(), 5) == 1
child = os.fork()
if child == 0:
    os._exit(0 if in_time(one(), 5) == 1 else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_coroutine_gives_its_value_or_its_error() -> None:
    async def value() -> int:
        await asyncio.sleep(0)
        return 3

    async def error() -> None:
        raise KeyError("why")

    assert in_time(value(), 5) == 3
    with pytest.raises(KeyError, match="why"):
        in_time(error(), 5)


def test_what_takes_too_long_is_cancelled() -> None:
    ended = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise

    start = time.monotonic()
    with pytest.raises(TimeoutError):
        in_time(slow(), 0.1)
    assert ended.wait(5)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_no_error_of_another_kind(seconds: float) -> None:
    with pytest.raises(TimeoutError):
        in_time(asyncio.sleep(60), seconds)


def test_threads_wait_side_by_side() -> None:
    barrier = asyncio.Barrier(20)

    async def meet() -> bool:
        await barrier.wait()
        return True

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(lambda _: in_time(meet(), 10), range(20)))


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)
