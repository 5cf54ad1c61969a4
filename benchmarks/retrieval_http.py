"""The service as `benchmarks.retrieval` starts it, and what all of its processes together cost."""

from __future__ import annotations

import select
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from benchmarks.retrieval_child import Child

START = 180.0  # seconds
GRACE = 120.0  # seconds for what is under way when the time is over
# Nothing shall be refused: 64 clients of 32 queries ask at a time.
_QUEUE, _SECONDS = 8192, 100


class Server:
    """`python -m tasks.retrieval_server` on a free port of the loopback.

    Args:
        index: the index's folder.
        retriever: bm25, dense or hybrid.
        workers: processes that search.
    """

    def __init__(self, index: Path, retriever: str, workers: int) -> None:
        settings = {"index": index, "retriever": retriever, "port": 0, "workers": workers, "queue": _QUEUE,
                    "seconds": _SECONDS}  # fmt: skip
        arguments = [part for key, value in settings.items() for part in (f"--{key}", str(value))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tasks.retrieval_server", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        ready = select.select([self._process.stdout], [], [], START)[0]
        self.address = self._process.stdout.readline().strip() if ready else ""
        if not self.address.startswith("http://"):
            self.close()
            raise RuntimeError(f"the server of {retriever} is not ready: {self.address!r}")

    def _family(self) -> list[psutil.Process]:
        front = psutil.Process(self._process.pid)
        return [front, *front.children(recursive=True)]

    def cpu(self) -> tuple[float, float]:
        """Processor seconds so far: of the front, which takes requests, and of all its processes."""
        spent = [one.cpu_times() for one in self._family()]
        seconds = [one.user + one.system for one in spent]
        return seconds[0], sum(seconds)

    def memory(self) -> dict[str, float]:
        """Resident memory of all its processes, MiB: summed, private, and with what they share counted once."""
        now = [one.memory_full_info() for one in self._family()]
        return {
            "processes": len(now),
            "rss": sum(one.rss for one in now) / 2**20,
            "private": sum(one.uss for one in now) / 2**20,
            "once": sum(one.pss for one in now) / 2**20,
        }

    def cache_hits(self) -> float:
        """How many queries its cache has answered.

        Raises:
            RuntimeError: it does not say so.
        """
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=10) as reply:  # noqa: S310  http:// it is
            lines = reply.read().decode().splitlines()
        found = [line for line in lines if line.split(" ")[0].endswith("cache_hits_total")]
        if not found:
            raise RuntimeError("the server's metrics do not count the hits of its cache")
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def close(self) -> None:
        """End it, with all its processes."""
        family = self._family() if self._process.poll() is None else []
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for one in psutil.wait_procs(family, timeout=5)[1]:
            one.kill()


def measure(server: Server, load: Child, job: dict[str, Any]) -> dict[str, Any]:
    """One measurement: so many clients, so many queries a request, for so many seconds.

    Raises:
        RuntimeError: a reply was lost, refused, crossed or wrong, or came from the cache where it should not.
    """
    load.ask({"prepare": {**job, "address": server.address, "grace": GRACE}}, job["warm_up"] + 2 * GRACE)
    hits, (front, everything) = server.cache_hits(), server.cpu()
    found = load.ask({"go": {}}, job["seconds"] + 2 * GRACE)
    now = server.cpu()
    found |= {"front_cpu": now[0] - front, "cpu": now[1] - everything}
    answered = server.cache_hits() - hits
    if answered != (found["queries"] if job["warm"] else 0):
        raise RuntimeError(f"the cache has answered {answered:.0f} of {found['queries']} queries")
    return found
