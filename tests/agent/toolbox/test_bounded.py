import asyncio
import threading
import time

import pytest

from tasks.agent.toolbox.bounded import THREAD, UncarriedError, bounded


def test_a_cancellation_that_comes_as_the_work_ends_is_not_lost() -> None:
    # asyncio.wait_for loses it in Python 3.11, and with it an episode's deadline.
    async def run() -> str:
        loop = asyncio.get_running_loop()

        def work() -> str:
            # Before the result is handed over, so that the loop sees both in one pass.
            loop.call_soon_threadsafe(lambda: (time.sleep(0.05), task.cancel()))
            return "done"

        task = asyncio.create_task(bounded(work, 10))
        return await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_work_that_hangs_is_given_up() -> None:
    end = threading.Event()
    with pytest.raises(TimeoutError):
        asyncio.run(bounded(lambda: end.wait(600), 0.05))
    # Nobody waited for the thread to end.
    (left,) = [thread for thread in threading.enumerate() if thread.name == THREAD]
    end.set()
    left.join()


def test_what_no_future_can_carry_is_an_error_of_the_work() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(UncarriedError, match="SystemExit"):
        asyncio.run(bounded(leave, 5))
