"""A Prefect server for one run by hand, when `make up` has started none.

Prefect would bring one up by itself, but in the terminal's process group: Ctrl-C would end it before the flow could
say that it was stopped. Here it gets a session of its own, and starts while DVC and MLflow are being imported.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import prefect
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from flows.environment import OWN_PORT, answers
from tasks import processes

LOG = Path(".forager/logs/prefect.log")
PATIENCE = 120.0  # seconds until the server must answer; its first start makes the database


@contextlib.contextmanager
def prefect_server() -> Iterator[None]:
    """Run the body with a Prefect server: the one that the environment names, or a short-lived one."""
    if OWN_PORT is None:
        yield
        return
    LOG.parent.mkdir(parents=True, exist_ok=True)
    command = ["uvicorn", "--log-level", "error", "--app-dir", str(Path(prefect.__file__).parents[1]), "--factory"]
    command += [
        "prefect.server.api.server:create_app",
        "--host",
        "127.0.0.1",
        "--port",
        str(OWN_PORT),
    ]
    # As prefect.server.api.server.SubprocessASGIServer starts it: no UI, and no service that outlives a run.
    settings = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    with LOG.open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **settings},
            start_new_session=True,
        )
    try:
        _import_engines()
        _wait(child, f"http://127.0.0.1:{OWN_PORT}/api/health")
        try:
            yield
        finally:
            # What is still on its way to the server would be retried for a minute once it is gone.
            EventsWorker.drain_all(timeout=5)
            APILogWorker.drain_all(timeout=5)
    finally:
        child.terminate()
        try:
            child.wait(2)
        except subprocess.TimeoutExpired:
            child.kill()  # it waits for connections that this process still holds open
            child.wait()


def _import_engines() -> None:
    import dvc.repo  # noqa: F401  a second each, while the server starts

    from tasks import tracking

    tracking.connect()


def _wait(child: subprocess.Popen[bytes], health: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not answers(health):
        if child.poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"Prefect's server did not come up; output: {LOG}\n{processes.last_lines(LOG)}")
        time.sleep(0.1)
