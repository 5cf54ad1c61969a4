"""Prefect's surroundings: its files in the workspace, and a server of its own only where `make up` has started one."""

from __future__ import annotations

import json
import os
import socket
import urllib.request
from pathlib import Path

import tasks.quiet  # noqa: F401  before prefect is imported
from tasks import processes

SERVICE_MARK = "FORAGER_SERVICE"  # carried by what `make up` started
SERVICES = Path(".forager/services")
ADDRESSES = SERVICES / "addresses.json"
SETTINGS = Path("prefect.toml")  # written by `make up`: by it the bare `prefect` command finds our server


def addresses() -> dict[str, str]:
    """Addresses of the services that are up here; empty when none is."""
    if not ADDRESSES.is_file() or not processes.marked_processes(mark=SERVICE_MARK):
        return {}
    return json.loads(ADDRESSES.read_text(encoding="utf-8"))


def answers(url: str) -> bool:
    """Whether a service says that it is well."""
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:  # noqa: S310  our own loopback address
            return reply.status == 200
    except OSError:
        return False


def prefect_url() -> str | None:
    """API address of this workspace's Prefect server, when it is up and answers."""
    found = addresses().get("prefect")
    return f"{found}/api" if found and answers(f"{found}/api/health") else None


def forget_services() -> None:
    """Remove the traces of services that are down; Prefect would look for its server there."""
    ADDRESSES.unlink(missing_ok=True)
    SETTINGS.unlink(missing_ok=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


# A run that a worker started comes with its server's address and speaks through Prefect's logs;
# one started by hand speaks on the terminal itself.
TERMINAL = "PREFECT__FLOW_RUN_ID" not in os.environ
# Where a server for one run is to listen, when there is no other (see flows/server.py). Prefect's threads read the
# address from the environment that prefect was imported in, so it stands before the server does.
OWN_PORT: int | None = None
if TERMINAL:
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    if "PREFECT_API_URL" not in os.environ and prefect_url() is None:
        forget_services()
        OWN_PORT = _free_port()
        os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{OWN_PORT}/api"
os.environ.setdefault("PREFECT_HOME", str(Path.cwd() / ".prefect"))
os.environ.setdefault("PREFECT_SERVER_MEMO_STORE_PATH", str(Path.cwd() / ".prefect" / "memo_store.toml"))
