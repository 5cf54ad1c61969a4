"""verl's SFT trainer as a child process of one rank."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from tasks.processes import run_supervised
from tasks.training.checkpoints import RunFolder
from tasks.training.machine import engine_environment, python_in, scratch_folder
from tasks.training.overrides import run_folder


def run_trainer(folder: RunFolder, overrides: Sequence[str], *, minutes: float, on_poll: Callable[[], bool]) -> None:
    """Run `verl.trainer.sft_trainer` until it ends or is told to.

    Args:
        folder: takes its log and, line by line, its steps.
        overrides: in Hydra's grammar.
        minutes: its wall-clock limit.
        on_poll: called again and again meanwhile; True ends it.

    Raises:
        CommandError: it has failed, or ran past its limit.
    """
    with scratch_folder() as scratch:
        run_supervised(
            [python_in(scratch), "-m", "verl.trainer.sft_trainer", *overrides, *run_folder(scratch)],
            log=folder.log,
            timeout=60 * minutes,
            environment={
                **engine_environment(),
                **_single_process(),
                "VERL_FILE_LOGGER_PATH": str(folder.live_steps),
            },
            on_poll=on_poll,
        )


def _single_process() -> dict[str, str]:
    """What torchrun would set for one process; without it one interpreter fewer starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    return {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
