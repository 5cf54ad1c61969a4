"""Stage `sft`: the warm-up on demonstrations, by verl's SFT trainer, stopped by what its rollouts show.

RL needs a policy that writes the protocol and sometimes succeeds; more SFT than that only learns the
demonstrations by heart. So every few steps rollouts are sampled on training questions, and SFT ends as soon
as they are in form and a fair share succeeds, or when the evaluation loss no longer falls. With `max_steps: 0`
the policy's model is handed on as it is.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from tasks.agent.setup import open_setup
from tasks.agent.toolbox.serving import serving
from tasks.agent.trajectory import Trajectory, write_trajectories
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError
from tasks.params import Playing


def run(stage: Stage) -> Figures:
    params, index = stage.params, stage.input("index")
    with serving(Playing.of(params), index=index, say=stage.say) as playing:
        return _run(stage, playing)


def _run(stage: Stage, playing: Playing) -> Figures:
    from transformers import AutoTokenizer

    from tasks.evaluation.vllm_engine import Engine
    from tasks.training import sft_run
    from tasks.training.checkpoints import RunFolder
    from tasks.training.steps import read_steps, write_steps

    params, sft = stage.params, stage.params.sft
    model = stage.input("policy", "model").absolute()
    dtype = json.loads((model / "config.json").read_text(encoding="utf-8"))["dtype"]
    asked = pd.read_parquet(stage.input("demos", "left.parquet"))
    # Drawn, since rows may lie in blocks of one kind.
    rows = asked.sample(n=min(sft.check_questions, len(asked)), random_state=params.seed).to_dict("records")
    folder = RunFolder(Path("checkpoints", stage.fingerprint()))
    setup = open_setup(
        playing,
        index=stage.input("index"),
        tokenizer=AutoTokenizer.from_pretrained(model),
    )
    engines: list[Engine] = []
    sampled: list[Trajectory] = []

    def sample(weights: Path) -> list[Trajectory]:
        if engines:
            engines[0].load_weights(weights)
        else:
            engines.append(Engine(weights, params.episode, max_seqs=len(rows) * sft.check_samples, seed=params.seed))
        sampled[:] = engines[0].play(
            rows,
            setup=setup,
            samples=sft.check_samples,
            temperature=1.0,
        )
        return sampled

    def on_step(step: int, metrics: dict[str, float]) -> None:
        stage.track.log_figures(metrics, step=step)

    def on_verdict(verdict: sft_run.Verdict) -> None:
        loss = "" if verdict.loss is None else f"evaluation loss {verdict.loss:.3f}, "
        stage.say(
            f"step {verdict.step}: {loss}in form {verdict.format_rate:.0%}, "
            f"success {verdict.success_rate:.0%}, pass@4 {verdict.pass_at_4:.0%}"
        )
        figures = {"format_rate": verdict.format_rate, "success_rate": verdict.success_rate}
        stage.track.log_figures({"check": {**figures, "pass_at_4": verdict.pass_at_4}}, step=verdict.step)

    if sft.max_steps:
        train_rows, validation_rows = (_demonstrations(stage, name) for name in ("train", "validation"))
        stage.say("starting verl's SFT trainer")
        verdicts = sft_run.train(
            folder,
            sft=sft,
            episode=params.episode,
            model=model,
            train_rows=train_rows.absolute(),
            validation_rows=validation_rows.absolute(),
            seed=params.seed,
            dtype=dtype,
            sample=sample,
            on_step=on_step,
            on_verdict=on_verdict,
        )
    else:
        verdicts = [sft_run.judge(0, [], sample(model), sft)]
        on_verdict(verdicts[0])
    last = verdicts[-1]
    stage.say(f"stopped at step {last.step}: {last.stop}")
    weights = folder.checkpoint(last.step) / "huggingface" if last.step else model
    shutil.copytree(weights, stage.out / "model")
    steps = [step for step in read_steps(folder.steps) if step["step"] <= last.step]
    write_steps(stage.out / "steps.jsonl", steps)
    if not sampled:  # an earlier, killed run had come to the verdict
        sample(stage.out / "model")
    write_trajectories(stage.out / "samples.parquet", sampled)
    stage.track.log_artifact(stage.out / "steps.jsonl")
    stage.when_done(folder.remove)
    return {
        "steps": last.step,
        "loss": last.loss,
        "format_rate": last.format_rate,
        "success_rate": last.success_rate,
        "pass_at_4": last.pass_at_4,
        "stopped_by": last.stop,
    }


def _demonstrations(stage: Stage, name: str) -> Path:
    """The table of demonstrations of that name.

    Raises:
        InputError: they are too few for a batch; verl's SFT trainer drops a last batch that isn't full.
    """
    path, batch = stage.input("demos", f"{name}.parquet"), stage.params.sft.batch_size
    found = pq.read_metadata(path).num_rows
    if found < batch:
        raise InputError(
            f"{found} demonstrations, and a batch of sft.batch_size has {batch}",
            where=str(path),
            mend="metrics/demos.json says why others were dropped; or lower the batch",
        )
    return path


if __name__ == "__main__":
    main("sft", run)
