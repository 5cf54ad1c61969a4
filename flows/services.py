"""Prefect's server and worker and MLflow's UI, on this machine's loopback address: `make up`, `make down`, `make ui`.

They carry a mark of their own in their environment, by which `down` finds all of them and their children.
A stage's start ends only what carries the stages' mark, so it never ends a service.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flows.environment import ADDRESSES, SERVICE_MARK, SERVICES, SETTINGS, addresses, answers, forget_services
from tasks import processes
from tasks.errors import InputError

HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds until a service must answer; a new database takes Prefect 10 s on two cores


def _environment(prefect: str) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if key != processes.MARK}
    home = Path.cwd() / ".prefect"
    return {
        **own,
        SERVICE_MARK: str(Path.cwd()),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}",
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_MEMO_STORE_PATH": str(home / "memo_store.toml"),
        "PREFECT_API_URL": f"{prefect}/api",
        # Its job runner would take 1.4 GB and serves nothing here.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def _start(name: str, command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with (SERVICES / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )


def _wait(name: str, child: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not ready():
        if child.poll() is not None or time.monotonic() > limit:
            raise InputError(
                f"{name} did not come up: {processes.last_lines(SERVICES / f'{name}.log', 3)}",
                where=str(SERVICES / f"{name}.log"),
                mend="is its port taken? PREFECT_PORT and MLFLOW_PORT choose others",
            )
        time.sleep(0.5)


def mlflow_command(port: str) -> list[str]:
    """Arguments of MLflow's server over the workspace's own database."""
    store = Path.cwd() / "mlruns"
    return [
        "mlflow",
        "server",
        "--host",
        HOST,
        "--port",
        port,
        "--workers",
        "1",
        "--backend-store-uri",
        f"sqlite:///{store / 'mlflow.db'}",
        "--default-artifact-root",
        (store / "artifacts").as_uri(),
    ]


def up() -> None:
    """Start what is not up yet, deploy the flow, and return when all answer."""
    prefect = f"http://{HOST}:{os.environ.get('PREFECT_PORT', '4200')}"
    mlflow = f"http://{HOST}:{os.environ.get('MLFLOW_PORT', '5000')}"
    if (
        addresses() == {"prefect": prefect, "mlflow": mlflow}
        and answers(f"{prefect}/api/health")
        and answers(f"{mlflow}/health")
    ):
        print("already up")
    else:
        down()
        for name, url in (("prefect", f"{prefect}/api/health"), ("mlflow", f"{mlflow}/health")):
            if answers(url):
                raise InputError(
                    f"something else answers at {url}", mend=f"choose another port with {name.upper()}_PORT"
                )
        SERVICES.mkdir(parents=True, exist_ok=True)
        (Path.cwd() / "mlruns").mkdir(exist_ok=True)
        try:
            _bring_up(prefect, mlflow)
        except BaseException:
            down()
            raise
    print(f"Prefect  {prefect}\nMLflow   {mlflow}")
    print("start a run:  .venv/bin/prefect deployment run 'train-and-eval/default' --param profile=tiny --watch")


def _bring_up(prefect: str, mlflow: str) -> None:
    from tasks import tracking

    tracking.connect()  # makes the tables once, before a server and a stage do so at the same time
    environment = _environment(prefect)
    port = prefect.rsplit(":", 1)[1]
    server = _start("prefect", ["prefect", "server", "start", "--host", HOST, "--port", port], environment)
    ui = _start("mlflow", mlflow_command(mlflow.rsplit(":", 1)[1]), environment)
    _wait("prefect", server, lambda: answers(f"{prefect}/api/health"))
    for arguments in (
        ["work-pool", "create", "local", "--type", "process", "--overwrite"],
        ["--no-prompt", "deploy", "--all"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *arguments], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"prefect {' '.join(arguments)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    _start("worker", ["prefect", "worker", "start", "--pool", "local", "--name", "local"], environment)
    _wait("mlflow", ui, lambda: answers(f"{mlflow}/health"))
    ADDRESSES.write_text(json.dumps({"prefect": prefect, "mlflow": mlflow}) + "\n", encoding="utf-8")
    home = json.dumps(environment["PREFECT_HOME"])
    SETTINGS.write_text(f'home = {home}\n\n[api]\nurl = "{prefect}/api"\n', encoding="utf-8")


def down() -> int:
    """End every service of this workspace and what they run; returns how many processes there were."""
    ended = processes.end_leftovers(mark=SERVICE_MARK, patience=10.0)
    forget_services()
    return ended


def ui() -> None:
    """MLflow's UI in the foreground, until Ctrl-C."""
    from tasks import tracking

    tracking.connect()
    port = os.environ.get("MLFLOW_PORT", "5000")
    print(f"MLflow   http://{HOST}:{port}   (Ctrl-C ends it)", flush=True)
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    os.execve(sys.executable, [sys.executable, "-m", *mlflow_command(port)], environment)


def main(arguments: Sequence[str]) -> int:
    """Run `up`, `down` or `ui`; returns the exit code."""
    try:
        match list(arguments):
            case ["up"]:
                up()
            case ["down"]:
                print(f"ended {down()} processes")
            case ["ui"]:
                ui()
            case _:
                raise InputError("say one of: up, down, ui", mend="python -m flows.services up")
    except InputError as error:
        print(f"services: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
