"""Stage `rft`: rejection-sampled fine-tuning on RL's own successful trajectories; off unless `rft.enabled`.

After RL the run's log holds thousands of episodes that the policy has played itself and that were right. Trained on as
demonstrations, a few of every question, they are Rejection sampling Fine-Tuning (Yuan et al. 2023, arXiv 2308.01825,
section 3.3). Where it is enabled, its model is the one that is evaluated last, gated and released. More: docs/rft.md.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tasks.contract import Figures, Stage, main
from tasks.errors import InputError


def run(stage: Stage) -> Figures:
    if not stage.params.rft.enabled:
        stage.say("rft.enabled is false: nothing to do")
        return {"enabled": False, "n": 0}
    return _run(stage)


def _run(stage: Stage) -> Figures:
    from tasks.training import rft_data, rft_run
    from tasks.training.checkpoints import RunFolder
    from tasks.training.steps import read_steps, write_steps

    settings = stage.params.rft
    rollouts = stage.input("rl", "rollouts")
    found = rft_data.choose(
        rft_data.successful(rollouts),
        per_question=settings.per_question,
        held_back=settings.validation,
        seed=stage.params.seed,
    )
    smallest = min(len(found.train), len(found.validation))
    if smallest < settings.batch_size:
        raise InputError(
            f"{found.successful} successful trajectories, {len(found.train)} to train on and {len(found.validation)} "
            f"held back, and a batch of rft.batch_size has {settings.batch_size}",
            where=str(rollouts),
            mend="take more rl.steps or rft.per_question, or a smaller batch",
        )
    rows = {name: stage.out.absolute() / f"{name}.parquet" for name in ("train", "validation")}
    found.train.to_parquet(rows["train"])
    found.validation.to_parquet(rows["validation"])
    stage.say(
        f"{found.successful} successful trajectories, {found.distinct} of them distinct; training on "
        f"{len(found.train)} about {found.questions} questions, {len(found.validation)} held back"
    )
    model = stage.input("merge" if settings.start == "rl" else "sft", "model").absolute()
    folder = RunFolder(Path("checkpoints", stage.fingerprint()))
    stage.say("starting verl's SFT trainer")
    weights = rft_run.train(
        folder,
        rft=settings,
        episode=stage.params.episode,
        model=model,
        train_rows=rows["train"],
        validation_rows=rows["validation"],
        steps_per_epoch=len(found.train) // settings.batch_size,
        seed=stage.params.seed,
        dtype=json.loads((model / "config.json").read_text(encoding="utf-8"))["dtype"],
        on_step=lambda step, metrics: stage.track.log_figures(metrics, step=step),
    )
    shutil.copytree(weights, stage.out / "model")
    steps = read_steps(folder.steps)
    write_steps(stage.out / "steps.jsonl", steps)
    stage.track.log_artifact(stage.out / "steps.jsonl")
    stage.when_done(folder.remove)
    losses = [step["data"]["train/loss"] for step in steps]
    held_back = [step["data"]["val/loss"] for step in steps if "val/loss" in step["data"]]
    stage.say(f"{len(steps)} steps: loss {losses[0]:.4f} > {losses[-1]:.4f}, of those held back {held_back[-1]:.4f}")
    return {
        "enabled": True,
        "start": settings.start,
        "successful": found.successful,
        "distinct": found.distinct,
        "n": len(found.train),
        "questions": found.questions,
        "held_back": len(found.validation),
        "steps": len(steps),
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "evaluation_loss": held_back[-1],
    }


if __name__ == "__main__":
    main("rft", run)
