"""Stage `evaluate`: base, SFT and RL models on held-out questions, greedily, by the very episode that trains.

The three share architecture and tokenizer, so one vLLM engine plays them in turn with its weights exchanged.
"""

from __future__ import annotations

import pandas as pd

from tasks.agent.setup import open_setup
from tasks.agent.toolbox.serving import serving
from tasks.contract import Figures, Stage, main
from tasks.params import Playing
from tasks.retrieval.index import manifest


def run(stage: Stage) -> Figures:
    params, index = stage.params, stage.input("index")
    manifest.require_corpus(index, stage.input("ingest", "corpus.parquet"))
    with serving(Playing.of(params), index=index, say=stage.say) as playing:
        return _run(stage, playing)


def _run(stage: Stage, playing: Playing) -> Figures:
    from tasks.evaluation import climb, metrics, report
    from tasks.evaluation.vllm_engine import Engine
    from tasks.training.steps import read_steps

    params, settings = stage.params, stage.params.evaluate
    test = pd.read_parquet(stage.input("ingest", "test.parquet")).head(settings.questions)
    rows = test.to_dict("records")
    models = {
        "base": stage.input("policy", "model"),
        "sft": stage.input("sft", "model"),
        "rl": stage.input("merge", "model"),
    }
    frames, engine = [], None
    for name, folder in models.items():
        if engine is None:
            engine = Engine(folder.absolute(), params.episode, max_seqs=settings.max_seqs, seed=params.seed)
            setup = open_setup(
                playing,
                index=stage.input("index"),
                tokenizer=engine.tokenizer,
            )
        else:
            engine.load_weights(folder.absolute())
        trajectories = engine.play(rows, setup=setup)
        frames.append(pd.DataFrame([{"model": name, **trajectory.record()} for trajectory in trajectories]))
        stage.say(f"{name}: EM {frames[-1]['em'].mean():.3f} on {len(rows)} questions")
    frame = pd.concat(frames, ignore_index=True)
    frame.to_parquet(stage.out / "trajectories.parquet", index=False)
    figures = metrics.summarise(
        frame,
        confidence=settings.confidence,
        resamples=settings.bootstrap,
        seed=params.seed,
        cites=setup.protocol.cites,
    )
    report.write_report(
        stage.out / "report.html",
        figures=figures,
        frame=frame,
        steps=read_steps(stage.input("rl", "steps.jsonl")),
        validation=climb.read(stage.input("rl", "figures.json")),
        examples=settings.report.examples,
        profile=stage.profile,
    )
    stage.track.log_artifact(stage.out / "report.html")
    stage.track.log_artifact(stage.out / "trajectories.parquet")
    return figures


if __name__ == "__main__":
    main("evaluate", run)
