"""Resumable training state: where it lies, which step is whole, what is kept.

State lies in checkpoints/FINGERPRINT/, outside DVC's outputs. The fingerprint is a hash of the stage's
parameters and inputs, so a changed configuration never resumes an older run.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tasks.files import write_text_aside
from tasks.training.rollouts import RolloutLog
from tasks.training.steps import Step, read_steps, write_steps

TRACKER = "latest_checkpointed_iteration.txt"


class RunFolder:
    """Folder of one training run: verl's checkpoints, the steps so far, the rollouts so far."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._removed = self.path.with_name(f".{self.path.name}.removed")
        shutil.rmtree(self._removed, ignore_errors=True)
        self.checkpoints = self.path / "verl"
        self.steps = self.path / "steps.jsonl"
        self.live_steps = self.path / "steps.live.jsonl"
        self.rollouts = self.path / "rollouts"
        self.tensorboard = self.path / "tensorboard"
        self.log = self.path / "verl.log"
        for folder in (self.checkpoints, self.rollouts):
            folder.mkdir(parents=True, exist_ok=True)

    def checkpoint(self, step: int) -> Path:
        """Folder of the checkpoint of a step."""
        return self.checkpoints / f"global_step_{step}"

    def saved(self) -> list[int]:
        """Steps with a checkpoint that was finished, ascending."""
        tracker = self.checkpoints / TRACKER
        if not tracker.is_file() or not (text := tracker.read_text(encoding="utf-8").strip()):
            return []
        found = (int(path.name.rpartition("_")[2]) for path in self.checkpoints.glob("global_step_*"))
        return sorted(step for step in found if step <= int(text))

    def rewind(self) -> int:
        """Put the folder in the state of its last step that is both saved and logged; returns that step, 0 for none.

        A run may be killed between saving a step and logging it, or while rollouts are written: whatever
        lies after the common step is dropped and will be done again.
        """
        self.absorb_live_steps()
        logged = {step["step"] for step in read_steps(self.steps)}
        whole = max((step for step in self.saved() if step in logged), default=0)
        for path in self.checkpoints.glob("global_step_*"):
            if int(path.name.rpartition("_")[2]) > whole:
                shutil.rmtree(path)
        tracker = self.checkpoints / TRACKER
        if whole:
            write_text_aside(tracker, str(whole))
        else:
            tracker.unlink(missing_ok=True)
        write_steps(self.steps, [step for step in read_steps(self.steps) if whole and step["step"] <= whole])
        RolloutLog(self.rollouts).rewind(whole)
        return whole

    def absorb_live_steps(self) -> None:
        """Move what verl has logged since its start (it truncates its file at every start) behind the earlier steps."""
        known = {step["step"]: step for step in read_steps(self.steps)}
        for step in read_steps(self.live_steps):
            known.setdefault(step["step"], step)
        write_steps(self.steps, [known[number] for number in sorted(known)])
        self.live_steps.unlink(missing_ok=True)

    def remove(self) -> None:
        """Drop the state of a run that has ended well: its results lie in data/."""
        # Renamed first: a kill on the way must not leave half a run that the next start would resume.
        os.replace(self.path, self._removed)
        shutil.rmtree(self._removed)


def healthy_checkpoints(saved: Iterable[int], steps: Sequence[Step], success: Mapping[int, float]) -> list[int]:
    """The checkpoints that one could go back to, ascending.

    Healthy is one that scored on the validation questions, no worse than the model that RL started from, after steps
    whose entropy was always a finite number (a weight that is NaN or infinite makes it NaN).

    Args:
        saved: steps with a checkpoint.
        steps: the metrics of all steps; validations alone have no entropy.
        success: of the validations by their steps, the start's among them.
    """
    start = success[min(success)]
    broken = [step["step"] for step in steps if not math.isfinite(step["data"].get("actor/entropy", 0.0))]
    until = min(broken, default=math.inf)
    return sorted(step for step in saved if step < until and success[step] >= start and success[step] > 0)
