"""The steps as TensorBoard shows them: verl's figures and those of the rollouts, live while a run is under way.

verl's own logger `tensorboard` knows verl's figures alone. `tensorboard.summary.Writer` needs no torch.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tensorboard.summary import Writer


class EventFiles:
    """Event files of one run; a folder of them is what `tensorboard --logdir` follows.

    What an earlier start of the run has left is dropped: its steps are logged again, each once.

    Args:
        folder: of the event files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self._writer: Any = Writer(str(folder))  # without annotations of its own

    def log(self, step: int, figures: dict[str, float]) -> None:
        """Write a step's figures, to be seen at once."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def publish(self, out: Path) -> None:
        """End the files, and copy them."""
        self._writer.close()
        shutil.copytree(self._folder, out)
