import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.evaluation import metrics, report
from tasks.evaluation.report.picture import open_browser
from tasks.params.judging import Report

VALIDATION = {
    "0": {"one-hop": {"em": 0.9, "searches": 1.0, "n": 10}, "all": {"em": 0.9, "searches": 1.0, "n": 10}},
    "2": {"one-hop": {"em": 1.0, "searches": 1.5, "n": 10}, "all": {"em": 1.0, "searches": 1.5, "n": 10}},
}
STEPS = [
    {"step": 1, "data": {"episode/score": 0.3, "actor/entropy": 1.0, "response_length/mean": 80}},
    {"step": 2, "data": {"episode/score": 0.5}},
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser without a window; while it is open its driver's event loop runs, and no other may."""
    with contextlib.ExitStack() as stack:
        try:
            browser = stack.enter_context(open_browser())
        except InputError as error:
            pytest.skip(str(error))
        yield browser


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file in a page of its own; at the end no page may have complained or asked for anything else."""
    troubles: list[str] = []
    contexts = []

    def open_(path: Path, address: str = "", **settings: Any) -> Any:
        context = browser.new_context(offline=True, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text))
        page.on("request", lambda request: request.url.startswith(("file:", "blob:")) or troubles.append(request.url))
        page.goto(f"{path.as_uri()}{address}")
        page.wait_for_selector(".shown h3", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not troubles


@pytest.fixture
def publish(tmp_path: Path) -> Callable[..., Path]:
    """Publishes trajectories; returns the folder."""

    def make(frame: pd.DataFrame, **settings: int) -> Path:
        publish_settings = Report(**{"examples": 2, "trajectories": 500, "audit": 10, **settings})
        figures = metrics.summarise(frame, confidence=0.95, resamples=50, seed=0)
        figures["candidate"] = list(figures["models"])[-1]
        report.publish(
            tmp_path, figures=figures, frame=frame, steps=STEPS, validation=VALIDATION, settings=publish_settings,
            seed=0, profile="tiny",
        )  # fmt: skip
        return tmp_path

    return make
