"""Stage `evaluate`: base, SFT, RL and RFT models, and a champion, on held-out questions, by the episode that trains.

Greedy, in batches of a pinned make-up, so that a second run gives the same answers. A killed evaluation goes on where
it was: its finished parts lie in checkpoints/FINGERPRINT/ until the results are in place. docs/evaluation.md has more.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.agent.toolbox.serving import serving
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError
from tasks.evaluation import jobs
from tasks.files import read_json
from tasks.params import Playing
from tasks.retrieval.index import manifest

if TYPE_CHECKING:
    from tasks.evaluation.ability import Choices

SOURCES = Path("data/sources")  # where evaluate.ability.file starts; DVC watches this folder for the stage


def run(stage: Stage) -> Figures:
    import pyarrow.parquet as pq

    from tasks.evaluation import ability, climb, figures, outside, playing, report
    from tasks.training.steps import read_steps

    params, settings = stage.params, stage.params.evaluate
    index, folder = stage.input("index"), Path("checkpoints", stage.fingerprint())
    manifest.require_corpus(index, stage.input("ingest", "corpus.parquet"))
    sections, models = Playing.of(params), _models(stage)
    named = {model.name: model for model in models}
    outside.check(settings.outside, named)
    asked = _multiple_choice(stage)
    with serving(sections, index=index, say=stage.say) as ready:
        table = playing.Table(stage.input("ingest", "test.parquet"), index, ready, params.seed)
        played = playing.play(models, table, settings, folder=folder, say=stage.say)
    stage.when_done(partial(shutil.rmtree, folder))
    frame = played.frame()
    pq.write_table(played.greedy, stage.out / "trajectories.parquet", compression="zstd")
    if played.sampled is not None:
        pq.write_table(played.sampled, stage.out / "samples.parquet", compression="zstd")
    found = figures.summarise(played, frame, settings, sections, params.seed)
    found["candidate"] = models[-1].name
    found["digests"] = {model.name: model.digest for model in models if model.digest is not None}
    for line in figures.lines(found):
        stage.say(line)
    # Commands of their own come first: this process takes no GPU memory before it scores choices.
    found["outside"] = outside.run(settings.outside, named, folder=folder / "outside", say=stage.say)
    if asked:
        folders = {model.name: model.folder for model in models}
        found["ability"] = ability.measure(folders, asked, confidence=settings.confidence, say=stage.say)
    found |= report.publish(
        stage.out,
        figures=found,
        frame=frame,
        steps=read_steps(stage.input("rl", "steps.jsonl")),
        validation=climb.read(stage.input("rl", "figures.json")),
        settings=settings.report,
        seed=params.seed,
        profile=stage.profile,
    )
    for output in sorted(stage.out.iterdir()):
        stage.track.log_artifact(output)
    return found


def _multiple_choice(stage: Stage) -> list[Choices]:
    """The questions of `evaluate.ability`; none where it asks for none."""
    import pyarrow.parquet as pq

    from tasks.evaluation import ability
    from tasks.qa import practice

    wanted, seed = stage.params.evaluate.ability, stage.params.seed
    if wanted is None:
        return []
    if wanted.file is not None:
        if Path(wanted.file).is_absolute() or ".." in Path(wanted.file).parts:
            mend = f"put it there, and name it from {SOURCES} on"
            raise InputError(f"{wanted.file} does not lie below {SOURCES}", where="evaluate.ability.file", mend=mend)
        return ability.read(SOURCES / wanted.file, wanted.questions, seed)
    titles = pq.read_table(stage.input("ingest", "corpus.parquet"), columns=["title"])["title"]
    return ability.generated.questions(practice.spare_names(set(titles.to_pylist())), wanted.questions, seed)


def _models(stage: Stage) -> list[jobs.Model]:
    """Who plays; a later one is compared with those before it, and the last one is the candidate for a release."""
    made = {
        "base": stage.input("policy", "model"),
        "sft": stage.input("sft", "model"),
        "rl": stage.input("merge", "model"),
    }
    if read_json(stage.input("rft", "figures.json"))["enabled"]:
        made["rft"] = stage.input("rft", "model")
    models = [jobs.Model(name=name, folder=folder.absolute()) for name, folder in made.items()]
    champion, episode = stage.params.evaluate.champion, stage.params.episode
    if champion is not None:
        models.insert(-1, jobs.champion(champion, episode.max_prompt_tokens + episode.max_response_tokens))
    return models


if __name__ == "__main__":
    main("evaluate", run)
