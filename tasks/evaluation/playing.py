"""Models play the questions: jobs that are not finished yet are dealt to engines, each a process of its own."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import InputError
from tasks.evaluation import parts
from tasks.evaluation.jobs import GREEDY, Job, Model, Way, plan, sampled, smaller_batches
from tasks.evaluation.player import SAID, Work
from tasks.files import read_json, write_text_aside
from tasks.params import Playing
from tasks.params.judging import Evaluate
from tasks.processes import CommandError, run_supervised


@dataclass(frozen=True)
class Played:
    """What an evaluation has played; rows of `parts.SCHEMA`, model after model, in the order of the questions.

    Attributes:
        greedy: one trajectory of every question and model.
        seconds: of one engine that the greedy ones took, by model, without its start.
        sampled: those for pass@k; None where it is not asked for.
        smaller: by most sequences in a batch, what the last model played in smaller batches.
    """

    greedy: pa.Table
    seconds: dict[str, float]
    sampled: pa.Table | None
    smaller: dict[int, pa.Table]

    def frame(self) -> pd.DataFrame:
        """The greedy trajectories as pandas has them; lists are arrays."""
        return self.greedy.to_pandas()


@dataclass(frozen=True)
class Table:
    """Where the questions are, and what they are played by.

    Attributes:
        questions: parquet file of the rows.
        index: folder of the retrieval index.
        playing: the sections that episodes are played by; the servers run.
        seed: of sampling.
    """

    questions: Path
    index: Path
    playing: Playing
    seed: int


def play(
    models: Sequence[Model], table: Table, settings: Evaluate, *, folder: Path, say: Callable[[str], None]
) -> Played:
    """Let every model play what `settings` asks for; what an earlier, killed run has finished is not played again.

    Args:
        models: their names differ. Those without a digest share architecture and tokenizer, and so an engine, whose
            weights are exchanged.
        table: what is played.
        settings: the section `evaluate`.
        folder: keeps the finished parts; to be named after all that decides what is in them.
        say: takes a line of progress.

    Raises:
        InputError: there is no question, more engines are asked for than there are GPUs, or the models cannot play
            the questions.
        CommandError: an engine has failed.
    """
    count = min(pq.read_metadata(table.questions).num_rows, settings.questions)
    if not count:
        raise InputError("no question to evaluate", where=str(table.questions), mend="raise the test split's share")
    jobs = plan(models, settings, count, folder)
    left = [job for job in jobs if not job.part.exists()]
    if len(left) < len(jobs):
        say(f"{len(jobs) - len(left)} of {len(jobs)} parts were finished by an earlier run")
    for together in ([job for job in left if job.model.digest is None], [job for job in left if job.model.digest]):
        if together:
            hands = [together[n :: settings.engines] for n in range(settings.engines)]
            _run([hand for hand in hands if hand], table, settings, count, folder, say)

    def played(way: Way, model: str | None = None) -> tuple[pa.Table, float]:
        return parts.read(job.part for job in jobs if job.way == way and model in (None, job.model.name))

    sampling = sampled(settings)
    return Played(
        greedy=played(GREEDY)[0],
        seconds={model.name: played(GREEDY, model.name)[1] for model in models},
        sampled=None if sampling is None else played(sampling)[0],
        smaller={way.batch: played(way)[0] for way in smaller_batches(settings) if way.batch is not None},
    )


def _run(
    hands: Sequence[list[Job]],
    table: Table,
    settings: Evaluate,
    count: int,
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Run a player for every hand of jobs; when one fails, the others are ended."""
    devices = _devices(settings.engines)
    failed = threading.Event()
    say(f"starting vLLM{f' {len(hands)} times' if len(hands) > 1 else ''}")

    def player(number: int) -> None:
        work = Work(
            playing=table.playing,
            index=table.index.absolute(),
            questions=table.questions.absolute(),
            count=count,
            max_seqs=settings.max_seqs,
            seed=table.seed,
            jobs=hands[number],
            refused=folder / f"player-{number}.refused.json",
        )
        file = folder / f"player-{number}.json"
        write_text_aside(file, work.model_dump_json())
        work.refused.unlink(missing_ok=True)
        try:
            run_supervised(
                [sys.executable, "-m", "tasks.evaluation.player", str(file)],
                log=folder / f"player-{number}.log",
                timeout=math.inf,
                environment=devices[number],
                on_line=lambda line: say(line.removeprefix(SAID)) if line.startswith(SAID) else None,
                on_poll=failed.is_set,
            )
        except CommandError:
            if work.refused.exists():
                raise InputError(**read_json(work.refused)) from None
            raise

    with ThreadPoolExecutor(len(hands)) as pool:
        try:
            for done in [pool.submit(_telling, failed, player, number) for number in range(len(hands))]:
                done.result()
        finally:
            failed.set()


def _telling(failed: threading.Event, player: Callable[[int], None], number: int) -> None:
    try:
        player(number)
    except BaseException:
        failed.set()
        raise


def _devices(engines: int) -> list[dict[str, str]]:
    """The environment of each engine: one of the GPUs that this process sees, where there are any.

    Raises:
        InputError: there are fewer than engines.
    """
    if engines == 1:
        return [{}]
    import torch

    seen = torch.cuda.device_count()
    if not seen:
        return [{}] * engines
    if seen < engines:
        raise InputError(f"evaluate.engines: {engines} engines need a GPU each, there are {seen}", mend="lower it")
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = named.split(",") if named else [str(number) for number in range(seen)]
    return [{"CUDA_VISIBLE_DEVICES": name.strip()} for name in names[:engines]]
