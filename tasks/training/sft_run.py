"""One SFT run of verl, checked while it runs.

verl's trainer saves a checkpoint and an evaluation loss every `check_every` steps. This process loads each
into vLLM, samples rollouts on training questions and decides whether to go on. Checkpoints are judged in
order, so what is selected does not depend on which process is faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tasks.agent.trajectory import Trajectory
from tasks.evaluation.sampling import pass_at_k
from tasks.files import write_text_aside
from tasks.params import Episode, Sft
from tasks.training.checkpoints import RunFolder
from tasks.training.exports import set_dtype
from tasks.training.machine import has_gpu
from tasks.training.sft_config import sft_overrides
from tasks.training.sft_process import run_trainer
from tasks.training.steps import Follower, numbers, read_steps, whole_lines

Sample = Callable[[Path], list[Trajectory]]


@dataclass(frozen=True)
class Verdict:
    """What a check found at a step; `loss` is None before the first one, `stop` the reason to stop, or None."""

    step: int
    loss: float | None
    format_rate: float
    success_rate: float
    pass_at_4: float
    stop: str | None = None


def judge(step: int, losses: Sequence[float], trajectories: Sequence[Trajectory], sft: Sft) -> Verdict:
    """Decide whether SFT has done its part.

    Args:
        step: the step of the checkpoint that was sampled.
        losses: evaluation losses of all checks so far, in nats a token, the last one this step's; none at step 0.
        trajectories: sampled episodes, `sft.check_samples` of each question next to each other.
        sft: targets and patience.
    """
    n = sft.check_samples
    groups = [trajectories[i : i + n] for i in range(0, len(trajectories), n)]
    format_rate = sum(t.format_valid for t in trajectories) / len(trajectories)
    success_rate = sum(t.success for t in trajectories) / len(trajectories)
    passes = sum(pass_at_k([t.success > 0 for t in group], 4) for group in groups) / len(groups)
    stop = None
    if not sft.max_steps:
        stop = "no steps asked for"
    elif format_rate >= sft.format_rate and success_rate >= sft.success_rate:
        stop = f"targets met: {format_rate:.0%} in form, {success_rate:.0%} succeed"
    elif len(losses) > sft.patience and min(losses[-sft.patience :]) >= min(losses[: -sft.patience]):
        stop = f"evaluation loss flat for {sft.patience} checks"
    elif step >= sft.max_steps:
        stop = f"all {sft.max_steps} steps done"
    return Verdict(step, losses[-1] if losses else None, format_rate, success_rate, passes, stop)


def train(
    folder: RunFolder,
    *,
    sft: Sft,
    episode: Episode,
    model: Path,
    train_rows: Path,
    validation_rows: Path,
    seed: int,
    dtype: str,
    sample: Sample,
    on_step: Callable[[int, dict[str, float]], None],
    on_verdict: Callable[[Verdict], None],
) -> list[Verdict]:
    """Run verl's SFT trainer until a check says stop.

    Args:
        sample: plays `check_samples` episodes of each check question with the weights in a folder.
        on_step: called with every step's metrics as they come.
        on_verdict: called after every check.

    Returns:
        the verdicts in order; the last one's step is the one selected.
    """
    folder.rewind()
    for step in read_steps(folder.steps):
        on_step(step["step"], numbers(step["data"]))
    checks = folder.path / "checks.jsonl"
    verdicts = _read_verdicts(checks, folder.saved())
    for verdict in verdicts:
        on_verdict(verdict)
    follower = Follower(folder.live_steps, on_step)

    def check_new() -> bool:
        follower.poll()
        losses = {
            step["step"]: step["data"]["val/loss"]
            for step in read_steps(folder.steps) + read_steps(folder.live_steps)
            if "val/loss" in step["data"]
        }
        done = verdicts[-1].step if verdicts else 0
        for step in (saved for saved in folder.saved() if saved > done and saved in losses):
            weights = folder.checkpoint(step) / "huggingface"
            set_dtype(weights, dtype)
            trajectories = sample(weights)
            verdict = judge(step, [losses[s] for s in sorted(losses) if s <= step], trajectories, sft)
            verdicts.append(verdict)
            with checks.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
            on_verdict(verdict)
            if verdict.stop:
                return True
        return False

    if not (verdicts and verdicts[-1].stop) and not check_new():
        overrides = sft_overrides(
            sft,
            episode,
            model=model,
            train=train_rows,
            validation=validation_rows,
            checkpoints=folder.checkpoints,
            seed=seed,
            dtype=dtype,
            gpu=has_gpu(),
        )
        run_trainer(folder, overrides, minutes=sft.timeout_minutes, on_poll=check_new)
        if not verdicts or not verdicts[-1].stop:
            check_new()
        folder.absorb_live_steps()
    return verdicts


def _read_verdicts(path: Path, saved: Sequence[int]) -> list[Verdict]:
    """Verdicts of an earlier, killed run whose checkpoints still lie there."""
    if not path.is_file():
        return []
    verdicts = [Verdict(**json.loads(line)) for line in whole_lines(path)]
    kept = [verdict for verdict in verdicts if verdict.step in saved]
    write_text_aside(path, "".join(json.dumps(asdict(verdict)) + "\n" for verdict in kept))
    return kept
