import os

import pytest

from tasks.retrieval.engines import threads


@pytest.mark.parametrize(("asked", "count"), [("1", 1), ("3", 3), ("0", 1)])
def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch, asked: str, count: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads.count() == count


@pytest.mark.parametrize("asked", [None, "", "many"])
def test_without_it_there_are_as_many_as_cores(monkeypatch: pytest.MonkeyPatch, asked: str | None) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads.count() == len(os.sched_getaffinity(0))
