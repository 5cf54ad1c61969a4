"""One run of verl's SFT trainer over RL's own trajectories, from its first epoch to its last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tasks.params import Episode, Rft
from tasks.processes import CommandError
from tasks.training.checkpoints import RunFolder
from tasks.training.exports import set_dtype
from tasks.training.machine import has_gpu
from tasks.training.sft_config import SftRun, trainer_overrides
from tasks.training.sft_process import run_trainer
from tasks.training.steps import Follower, numbers, read_steps


def train(
    folder: RunFolder,
    *,
    rft: Rft,
    episode: Episode,
    model: Path,
    train_rows: Path,
    validation_rows: Path,
    steps_per_epoch: int,
    seed: int,
    dtype: str,
    on_step: Callable[[int, dict[str, float]], None],
) -> Path:
    """Train for `rft.epochs` passes; a killed run goes on after its last whole pass.

    Args:
        folder: keeps checkpoints and steps.
        rft: the rft section.
        episode: the episode section.
        model: folder of the model that is trained.
        train_rows: parquet file of `rft_data.IDS`.
        validation_rows: the same of those held back.
        steps_per_epoch: whole batches in `train_rows`; verl drops the rest, other rows in every epoch.
        seed: of training.
        dtype: `float32` or `bfloat16`, of training and of the export.
        on_step: called with every step's metrics as they come.

    Returns:
        folder of the trained model in Hugging Face's form

    Raises:
        CommandError: verl has failed, or has ended before the last step.
    """
    last, follower = rft.epochs * steps_per_epoch, Follower(folder.live_steps, on_step)
    done = folder.rewind()

    def follow() -> bool:
        follower.poll()
        return False

    for step in read_steps(folder.steps):
        on_step(step["step"], numbers(step["data"]))
    if done < last:
        asked = SftRun(
            learning_rate=rft.learning_rate,
            batch_size=rft.batch_size,
            steps=last,
            check_every=steps_per_epoch,
            dataset="TrajectoryDataset",
        )
        overrides = trainer_overrides(
            asked,
            episode,
            model=model,
            train=train_rows,
            validation=validation_rows,
            checkpoints=folder.checkpoints,
            seed=seed,
            dtype=dtype,
            gpu=has_gpu(),
        )
        run_trainer(folder, overrides, minutes=rft.timeout_minutes, on_poll=follow)
        follow()
        folder.absorb_live_steps()
    if last not in folder.saved():
        raise CommandError(f"verl ended before step {last}; output: {folder.log}")
    weights = folder.checkpoint(last) / "huggingface"
    set_dtype(weights, dtype)
    return weights
