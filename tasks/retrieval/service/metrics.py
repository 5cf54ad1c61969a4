"""What the service counts, for Prometheus; each application has a registry of its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_PREFIX = "forager_retrieval"


class Metrics:
    """The series, all of them `forager_retrieval_...`.

    Args:
        waiting: says how many queries wait.
        workers: says how many workers there are to be.
        ready: says how many of them can search.
    """

    def __init__(self, waiting: Callable[[], int], workers: Callable[[], int], ready: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests by HTTP status.", "status")
        self.request_seconds = self._histogram("request_seconds", "From a request for /retrieve to its answer.")
        self.queries = self._counter("queries", "Queries of requests that were taken on.")
        self.cache_hits = self._counter("cache_hits", "Queries answered from the cache.")
        self.cache_misses = self._counter("cache_misses", "Queries that had to be searched for.")
        self.batch_queries = self._histogram("batch_queries", "Queries of a batch.", _QUERIES)
        self.wait_seconds = self._histogram("wait_seconds", "From a request to a worker that takes its queries.")
        self.search_seconds = self._histogram("search_seconds", "From a batch to its reply.")
        self.rejected = self._counter("rejected", "Requests for which the queue had no room, or none in time.")
        self.deadline_misses = self._counter("deadline_misses", "Requests whose deadline passed.")
        self.disconnected = self._counter("disconnected", "Requests whose client went away before the answer.")
        self.retried = self._counter("retried_queries", "Queries that were given to another worker.")
        self.restarts = self._counter("worker_restarts", "Workers that were lost and started anew.")
        self._gauge("queue_queries", "Queries that wait for a worker.", waiting)
        self._gauge("workers", "Workers that there are to be.", workers)
        self._gauge("workers_ready", "Workers that can search.", ready)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", what, labels, registry=self._registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"{_PREFIX}_{name}", what, buckets=buckets, registry=self._registry)

    def _gauge(self, name: str, what: str, value: Callable[[], int]) -> None:
        Gauge(f"{_PREFIX}_{name}", what, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """All series in Prometheus' text format."""
        return generate_latest(self._registry)
