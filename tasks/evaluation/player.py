"""One engine of an evaluation, as a process of its own: plays jobs one after the other, each into its part.

    python -m tasks.evaluation.player WORK.json

Its memory, on a GPU above all, is free again when it ends. Input that is wrong ends it with code 2, and a file says
what it is: the stage passes that on as its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import tasks.quiet  # noqa: F401  before any engine is imported
from tasks.agent.setup import open_setup
from tasks.errors import InputError
from tasks.evaluation import parts
from tasks.evaluation.jobs import Job
from tasks.evaluation.vllm_engine import Engine
from tasks.files import write_json
from tasks.params import Playing
from tasks.sections import Section

SAID = "player: "  # begins the lines that are meant for the stage


class Work(Section):
    """What a player is given.

    Attributes:
        playing: the sections that episodes are played by; the servers run.
        index: folder of the retrieval index.
        questions: parquet file of the rows.
        count: how many of them there are to play; numbers of jobs go up to it.
        max_seqs: most sequences in a batch.
        seed: of sampling.
        jobs: in the order in which they are played, for models of one architecture and tokenizer.
        refused: the file that says which input is wrong.
    """

    playing: Playing
    index: Path
    questions: Path
    count: int
    max_seqs: int
    seed: int
    jobs: list[Job]
    refused: Path


def play(work: Work) -> None:
    """Play every job."""
    import pandas as pd

    rows = pd.read_parquet(work.questions).head(work.count).to_dict("records")
    loaded = work.jobs[0].model
    engine = Engine(loaded.folder, work.playing.episode, max_seqs=work.max_seqs, seed=work.seed)
    setup = open_setup(work.playing, index=work.index, tokenizer=engine.tokenizer)
    for job in work.jobs:
        if job.model != loaded:
            engine.load_weights(job.model.folder)
            loaded = job.model
        questions, way, start = rows[job.first : job.last], job.way, time.monotonic()
        trajectories = engine.play(
            questions, setup=setup, samples=way.samples, temperature=way.temperature, batch=way.batch
        )
        seconds = time.monotonic() - start
        parts.write(job.part, trajectories, questions, model=job.model.name, seconds=seconds)
        success = sum(one.success for one in trajectories) / len(trajectories)
        place = f"questions {job.first + 1:,} to {job.last:,}, {way.name}"
        print(f"{SAID}{job.model.name}: {place}: success {success:.3f}, {seconds:.1f} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Play the work in a file; 2 when input is wrong."""
    work = Work.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        play(work)
    except InputError as error:
        write_json(work.refused, {"what": error.what, "where": error.where, "mend": error.mend})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
