"""One RL run of verl: files in, verl's main_ppo as a supervised child, steps and rollouts out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from tasks.params import Episode, Rl
from tasks.processes import CommandError, run_supervised
from tasks.training.checkpoints import RunFolder
from tasks.training.machine import engine_environment, has_gpu, python_in, scratch_folder
from tasks.training.overrides import hydra_overrides, run_folder
from tasks.training.rl_config import RlFiles, bucket_megabytes, rl_settings
from tasks.training.rl_rows import write_validation_rows
from tasks.training.rollouts import RolloutLog
from tasks.training.sanity import SanityCheck
from tasks.training.sanity_report import report
from tasks.training.steps import Follower, Step, read_steps

Say = Callable[[str], None]


def reward_of_rl(environment: dict[str, Any], rl: Rl, episode: Episode) -> dict[str, Any]:
    """The section `environment` with what `rl.soft_overlong` adds to its reward.

    Lmax is the most that an episode can generate: all turns at their limit, or the whole response.
    """
    if rl.soft_overlong is None:
        return environment
    most = min(episode.max_turns * episode.max_turn_tokens, episode.max_response_tokens)
    part = {
        "weight": rl.soft_overlong.weight,
        "max_tokens": most,
        "cache_tokens": max(1, round(rl.soft_overlong.share * most)),
    }
    return {**environment, "reward": {**environment["reward"], "soft_overlong": part}}


def train(
    folder: RunFolder,
    *,
    rl: Rl,
    verl: Mapping[str, Any],
    episode: Episode,
    shared: dict[str, Any],
    model: Path,
    train_rows: Path,
    validation_rows: Path,
    index: Path,
    seed: int,
    dtype: str,
    say: Say,
    on_step: Callable[[int, dict[str, float]], None],
) -> SanityCheck:
    """Run verl until `rl.steps` are done, resuming from the folder's last whole step.

    Args:
        folder: the run's state; what verl logs and the episodes write lands there.
        shared: the sections `retrieval`, `environment`, `episode` and `tools` as plain values, for the agent loop;
            what rl adds to the reward is added here.
        on_step: called once with each new step's metrics as they come, verl's and those of the step's rollouts.

    Returns:
        the sanity check, whose verdicts lie in the folder.

    Raises:
        CommandError: verl failed, ran past `rl.timeout_minutes`, or the sanity check stopped it.
    """
    done = folder.rewind()
    rows = folder.path / "validation.parquet"
    sanity = _sanity(folder, rl, model, write_validation_rows(validation_rows, rows, rl.validation_questions))
    if done >= rl.steps:
        return sanity
    if done:
        say(f"resuming after step {done} of {rl.steps}")
    else:
        shutil.rmtree(folder.path / "sanity", ignore_errors=True)
    settings = folder.path / "agent.json"
    content = {
        **shared,
        "environment": reward_of_rl(shared["environment"], rl, episode),
        "credit": rl.credit.level,
        "seed": seed,
        "mask_observations": rl.mask_observations,
        "deadline_seconds": rl.deadline_seconds,
        "fallback_reward": rl.fallback_reward,
        "no_loss_on": list(rl.no_loss_on),
        "index": str(index),
        "rollouts": str(folder.rollouts),
        "sanity": asdict(sanity),
    }
    settings.write_text(json.dumps(content), encoding="utf-8")
    loop = folder.path / "agent_loop.yaml"
    target = {"name": "forager", "_target_": "tasks.agent.verl_loop.ForagerAgentLoop", "settings": str(settings)}
    loop.write_text(yaml.safe_dump([target]), encoding="utf-8")
    files = RlFiles(model, train_rows, rows, loop, folder.checkpoints)
    now = _with_adapted_kl(rl, read_steps(folder.steps))
    configured = rl_settings(now, episode, files, seed=seed, dtype=dtype, gpu=has_gpu(), bucket=bucket_megabytes(model))
    overrides = hydra_overrides(configured, verl)
    log = RolloutLog(folder.rollouts)

    def with_rollouts(step: int, metrics: dict[str, float]) -> None:
        log.gather(step)
        # A resumed run validates once more where it goes on from, which is known already.
        if not done or step > done:
            on_step(step, {**metrics, **log.figures(step)})

    follower = Follower(folder.live_steps, with_rollouts)

    def poll() -> bool:
        follower.poll()
        _require_agreement(sanity)
        return False

    with scratch_folder() as scratch:
        try:
            run_supervised(
                [python_in(scratch), "-m", "verl.trainer.main_ppo", *overrides, *run_folder(scratch)],
                log=folder.log,
                timeout=60 * rl.timeout_minutes,
                environment={
                    **engine_environment(),
                    "VERL_FILE_LOGGER_PATH": str(folder.live_steps),
                    "RAY_TMPDIR": str(scratch),
                },
                on_poll=poll,
            )
        except CommandError:
            # verl refuses to train after a failed check, too, and may be the first to end.
            _require_agreement(sanity)
            raise
    follower.poll()
    folder.absorb_live_steps()
    return sanity


def _with_adapted_kl(rl: Rl, steps: Sequence[Step]) -> Rl:
    """The section with the KL's coefficient that the adaptive controller has come to in the steps so far.

    verl 0.9.1 saves it with no checkpoint (trainer/ppo/v1/trainer_base.py:948), so that a resumed run would begin
    anew with the first one. A step logs its coefficient before its update.
    """
    if rl.kl.target is None or not steps or "actor/reward_kl_penalty" not in steps[-1]["data"]:
        return rl
    from verl.trainer.ppo.core_algos import AdaptiveKLController

    last = steps[-1]["data"]
    controller = AdaptiveKLController(last["actor/reward_kl_penalty_coeff"], rl.kl.target, rl.kl.horizon)
    controller.update(last["actor/reward_kl_penalty"], n_steps=rl.prompts * rl.samples)
    return rl.model_copy(update={"kl": rl.kl.model_copy(update={"coefficient": float(controller.value)})})


def _require_agreement(sanity: SanityCheck) -> None:
    """Stop a run whose check has failed, with the report that says where engine and transformers part.

    Raises:
        CommandError: an episode's verdict is bad.
    """
    verdicts = sanity.verdicts()
    if not all(verdict["passed"] for verdict in verdicts):
        raise CommandError(f"sanity check before the first step\n{report(verdicts, sanity)}")


def _sanity(folder: RunFolder, rl: Rl, model: Path, episodes: int) -> SanityCheck:
    wanted = min(rl.sanity.episodes, episodes)
    return SanityCheck(str(model), str(folder.path / "sanity"), wanted, rl.sanity.max_logprob_diff)


def keep_checkpoint(folder: RunFolder, step: int, out: Path) -> None:
    """Copy the actor's weights of a step (verl's shards, config and tokenizer; no optimizer) to `out`."""
    source = folder.checkpoint(step) / "actor"
    out.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            shutil.copytree(path, out / path.name)
        elif path.name.startswith("model_world_size_") or path.name == "fsdp_config.json":
            shutil.copy2(path, out / path.name)
