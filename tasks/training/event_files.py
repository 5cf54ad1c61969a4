"""The steps as TensorBoard shows them: verl's figures and those of the rollouts, live while a run is under way.

verl's own logger `tensorboard` knows verl's figures alone. Written with tensorboard's writer, since torch's is the same
and takes seconds to import.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


class EventFiles:
    """Event files of one run; a folder of them is what `tensorboard --logdir` follows.

    The steps of an earlier start of the run are logged again, each once: TensorBoard forgets what it has read before it
    reads that a session starts. Their files stay, since a TensorBoard that follows one which vanishes reads no more.

    Args:
        folder: of the event files.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._earlier = folder, set(folder.iterdir())
        self._writer: Any = EventFileWriter(str(folder))  # without annotations of its own
        self._add(0, session_log=SessionLog(status=SessionLog.START))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Write a step's figures, to be seen at once."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._add(step, summary=Summary(value=values))

    def _add(self, step: int, **what: Any) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, **what))
        self._writer.flush()

    def publish(self, out: Path) -> None:
        """End the file of this start, which holds all steps, and copy it to a new folder."""
        self._writer.close()
        out.mkdir()
        for path in set(self._folder.iterdir()) - self._earlier:
            shutil.copy2(path, out / path.name)
