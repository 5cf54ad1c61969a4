"""Stage `rl`: the algorithm that `rl.algorithm` names, on verl with vLLM rollouts.

verl runs as a child under a wall-clock limit and resumes by itself: its state lies in
checkpoints/FINGERPRINT/, so a killed stage goes on where it was, and a changed configuration starts anew.
The checkpoint handed to merge is the one with the best validation success; among equals the latest. The next best are
kept beside it, `rl.keep` in all, so that there is something to go back to.

    python -m tasks.rl --check-engine [--model DIR] [--episodes N]

trains nothing: it plays validation questions in vLLM, greedily, and compares every token with transformers. Exit
code 0: they agree; 3: they differ, and data/rl-check/report.txt says where; 2: wrong input; 1: the check itself failed.

    python -m tasks.rl --dry-run [--set rl.algorithm=dapo ...]

starts, reads and writes nothing of the run: it prints verl's whole configuration, what of it is not verl's default and
who sets it, and the batches. Exit code 2: verl would refuse it, or sizes do not divide. It needs no earlier stage.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tasks import params as parameters
from tasks.agent.toolbox.serving import serving
from tasks.contract import Figures, Stage, at_work, main
from tasks.errors import InputError, exit_on_input_error
from tasks.files import write_json
from tasks.params import Playing, Rl
from tasks.processes import CommandError
from tasks.retrieval.index import manifest

DIFFER = 3  # exit code of the engine's check; 1 is any crash, which says nothing about the engine


def run(stage: Stage) -> Figures:
    from tasks.training import rl_run
    from tasks.training.alarms import Alarms
    from tasks.training.checkpoints import RunFolder, healthy_checkpoints
    from tasks.training.event_files import EventFiles
    from tasks.training.rl_figures import engine_against_actor, episodes, validation_figures
    from tasks.training.rollouts import RolloutLog
    from tasks.training.steps import numbers, read_steps, write_steps, write_table

    params = stage.params
    model = stage.input("sft", "model").absolute()
    dtype = json.loads((model / "config.json").read_text(encoding="utf-8"))["dtype"]
    folder = RunFolder(Path("checkpoints", stage.fingerprint()))
    folder.rewind()
    log = RolloutLog(folder.rollouts)
    log.gather()
    events = EventFiles(folder.tensorboard)

    def record(step: int, metrics: dict[str, float]) -> None:
        stage.track.log_figures(metrics, step=step)
        events.log(step, metrics)

    for step in log.beside(read_steps(folder.steps)):
        record(step["step"], numbers(step["data"]))

    alarms = Alarms(params.episode.example_answer)

    def on_step(step: int, metrics: dict[str, float]) -> None:
        record(step, metrics)
        if "critic/score/mean" in metrics:
            generated = metrics.get("episode/groups/generated", 0)
            more = f", {generated:.0f} groups generated" if generated > params.rl.prompts else ""
            stage.say(
                f"step {step}/{params.rl.steps}: reward {metrics['episode/score']:.3f}, "
                f"entropy {_shown(metrics, 'actor/entropy', 3)}, grad norm {_shown(metrics, 'actor/grad_norm', 2)}, "
                f"{metrics['timing_s/step']:.1f} s{more}"
            )
        for line in alarms.of(metrics):
            stage.say(f"step {step}: {line}")

    train_rows = stage.input("demos", "rl_train.parquet").absolute()
    _require_a_step(train_rows, params.rl)
    index = stage.input("index").absolute()
    manifest.require_corpus(index, stage.input("ingest", "corpus.parquet"))
    with serving(Playing.of(params), index=index, say=stage.say) as playing:
        stage.say("starting Ray, the trainer and vLLM")
        sanity = rl_run.train(
            folder,
            rl=params.rl,
            verl=params.verl,
            episode=params.episode,
            shared=playing.model_dump(mode="json"),
            model=model,
            train_rows=train_rows,
            validation_rows=stage.input("ingest", "validation.parquet").absolute(),
            index=index,
            seed=params.seed,
            dtype=dtype,
            say=stage.say,
            on_step=on_step,
        )
    log.gather()
    steps = log.beside(read_steps(folder.steps))
    trained = [step for step in steps if "critic/score/mean" in step["data"]]
    if not trained or trained[-1]["step"] != params.rl.steps:
        raise CommandError(f"verl ended after {len(trained)} of {params.rl.steps} steps; output: {folder.log}")
    events.publish(stage.out / "tensorboard")
    rollouts = log.publish(stage.out / "rollouts")
    validation = rollouts[rollouts["split"] == "validation"].groupby("step")["success"].mean()
    measured = {step: float(validation[step]) for step in folder.saved() if step in validation}
    kept = sorted(measured, key=lambda step: (measured[step], step), reverse=True)[: params.rl.keep]
    selected = kept[0]
    reason = f"best validation success, {measured[selected]:.3f} on {params.rl.validation_questions} questions"
    rl_run.keep_checkpoint(folder, selected, stage.out / "checkpoint")
    for other in kept[1:]:
        rl_run.keep_checkpoint(folder, other, stage.out / "kept" / f"global_step_{other}")
    healthy = healthy_checkpoints(kept, steps, validation.to_dict())
    write_json(stage.out / "selected.json", {"step": selected, "checkpoint": "checkpoint", "reason": reason})
    write_json(stage.out / "sanity.json", sanity.summary())
    write_steps(stage.out / "steps.jsonl", steps)
    write_table(stage.out / "steps.csv", steps)
    for name in ("steps.jsonl", "sanity.json", "selected.json"):
        stage.track.log_artifact(stage.out / name)
    stage.track.log_artifact(folder.log)
    seconds = [step["data"]["timing_s/step"] for step in trained]
    stage.say(f"step {selected} selected: {reason}")
    stage.when_done(folder.remove)
    return {
        "steps": len(trained),
        "seconds_per_step": sum(seconds) / len(seconds),
        "score_first": trained[0]["data"]["episode/score"],
        "score_last": trained[-1]["data"]["episode/score"],
        "validation_first": float(validation.iloc[0]),
        "validation_selected": measured[selected],
        "selected_step": selected,
        "checkpoints": {"saved": len(folder.saved()), "kept": len(kept), "healthy": len(healthy)},
        "validation": validation_figures(rollouts),
        **episodes(trained, params.rl),
        **engine_against_actor(trained, params.rl),
        "sanity_max_logprob_diff": sanity.summary()["max_logprob_diff"],
    }


def _require_a_step(rows: Path, rl: Rl) -> None:
    """Refuse fewer rows than a step has: verl's loader drops what fills none, and would bring nothing.

    A step that filters groups may play more questions than it trains on. One that it plays twice has the same rollouts
    twice, since these have the question's seeds: no new chance, and where it is mixed a group of double weight.

    Raises:
        InputError: there are fewer.
    """
    count = pq.read_metadata(rows).num_rows
    if count < rl.prompts:
        what, mend = f"do not make a step of rl.prompts: {rl.prompts}", "lower rl.prompts"
    elif count < rl.most_groups:
        key = "keep_groups" if rl.dynamic_sampling is None else "dynamic_sampling.max_batches"
        mend = f"{'raise' if rl.dynamic_sampling is None else 'lower'} rl.{key}"
        what = f"are fewer than the {rl.most_groups} that a step may play by rl.{key}"
    else:
        return
    raise InputError(f"{count} questions {what}", where=str(rows), mend=f"select more questions, or {mend}")


def _shown(metrics: Mapping[str, float], name: str, digits: int) -> str:
    """A figure of the policy, which has none of its update while the critic alone is trained."""
    return f"{metrics[name]:.{digits}f}" if name in metrics else "-"


def check_engine(model: Path | None, episodes: int | None) -> int:
    """Compare vLLM with transformers on whole episodes; returns the exit code.

    Args:
        model: folder of a model; by default the one that RL starts from.
        episodes: how many validation questions; by default `rl.sanity.episodes`.
    """
    with at_work("rl") as params:
        from tasks.training import engine_check

        stage = Stage("rl", params, Path("data", "rl-check"), track=None)
        if model is None:
            model = stage.input("sft", "model")
        elif not model.is_dir():
            raise InputError("no such folder", where=str(model), mend="name one with --model")
        agree = engine_check.check_engine(
            stage.params,
            model=model.absolute(),
            validation=stage.input("ingest", "validation.parquet"),
            index=stage.input("index"),
            episodes=episodes or stage.params.rl.sanity.episodes,
            out=stage.out,
            say=stage.say,
        )
    return 0 if agree else DIFFER


def dry_run(settings: Sequence[str]) -> None:
    """Print what stage rl would ask of verl, with the profile in force and single settings on top of it.

    Args:
        settings: `KEY=VALUE`, as of the flow's `--set`.

    Raises:
        InputError: a setting is wrong, verl refuses the configuration, or sizes do not divide.
    """
    from tasks.training import dry_run as dry

    single = parameters.overlay(parameters.settings_in_force(), parameters.parse_settings(settings))
    content = parameters.resolve(parameters.profile_name(), single)
    params = parameters.typed(content, where="params")
    shown = dry.DryRun(params, parameters.preset_of(params.rl.algorithm))
    if dry.ROWS.is_file():
        _require_a_step(dry.ROWS, params.rl)
    dry.show(shown)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tasks.rl", description="Stage rl; without options: trains.")
    parser.add_argument(
        "--check-engine",
        action="store_true",
        help=f"compare vLLM with transformers, train nothing; exit code 0: they agree, {DIFFER}: they differ",
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="the model to check (default data/sft/model)")
    parser.add_argument("--episodes", type=_count, metavar="N", help="questions to play (default rl.sanity.episodes)")
    parser.add_argument("--dry-run", action="store_true", help="print verl's configuration and the batches")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", default=[], help="of --dry-run: a parameter")
    options = parser.parse_args()
    if options.dry_run and options.check_engine:
        parser.error("--dry-run or --check-engine, not both")
    if not options.check_engine and (options.model is not None or options.episodes is not None):
        parser.error("--model and --episodes go with --check-engine")
    if options.set and not options.dry_run:
        parser.error("--set goes with --dry-run; for a run: python -m flows.train_and_eval --set KEY=VALUE")
    if options.dry_run:
        with exit_on_input_error("rl"):
            dry_run(options.set)
    elif options.check_engine:
        raise SystemExit(check_engine(options.model, options.episodes))
    else:
        main("rl", run)
