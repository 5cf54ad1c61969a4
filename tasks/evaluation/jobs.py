"""What an evaluation has to play, cut into jobs: shards of questions, each played by one model in one way.

A shard has as many questions as an engine takes sequences, whatever the number of engines is: batches are made within
a shard, so neither the engines nor a kill can change what an episode shares its batches with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import InputError
from tasks.files import read_json
from tasks.params.judging import Evaluate
from tasks.sections import Section

CHECKED = "rl"  # the model whose answers are played again in smaller batches


class Model(Section):
    """A model that plays.

    Attributes:
        name: what figures call it.
        folder: in Hugging Face's form, as an absolute path.
        digest: of the folder's content, where it is none of DVC's.
    """

    name: str
    folder: Path
    digest: str | None = None


class Way(Section):
    """How questions are played.

    Attributes:
        name: of the folder that keeps what was played so.
        samples: episodes of a question.
        temperature: 0.0 is greedy.
        batch: most turns that the engine gets at once; None: all that wait.
    """

    name: str
    samples: int = 1
    temperature: float = 0.0
    batch: int | None = None


class Job(Section):
    """A shard of the questions, for one model.

    Attributes:
        model: who plays.
        way: how.
        first: number of its first question, from 0.
        last: of the one after its last.
        part: the file that takes what was played.
    """

    model: Model
    way: Way
    first: int
    last: int
    part: Path


GREEDY = Way(name="greedy")


def sampled(settings: Evaluate) -> Way | None:
    """The way in which pass@k is played; None where it is not asked for."""
    if settings.pass_at is None:
        return None
    return Way(name="sampled", samples=settings.pass_at.samples, temperature=settings.pass_at.temperature)


def smaller_batches(settings: Evaluate) -> list[Way]:
    """The ways in which the check of the batch size plays."""
    sizes = settings.batch_check.max_seqs if settings.batch_check is not None else []
    return [Way(name=f"max-seqs-{size}", batch=size) for size in sizes]


def plan(models: Sequence[Model], settings: Evaluate, questions: int, folder: Path) -> list[Job]:
    """All jobs of an evaluation, model after model.

    Args:
        models: in the order in which they play.
        settings: the section `evaluate`.
        questions: how many there are.
        folder: of the parts that are finished.
    """
    ways = [(GREEDY, questions)]
    if (sampling := sampled(settings)) is not None:
        ways.append((sampling, questions))
    few = min(questions, settings.batch_check.questions) if settings.batch_check is not None else 0
    checks = [(way, few) for way in smaller_batches(settings)]
    jobs = []
    for model in models:
        place = folder / "-".join(filter(None, (model.name, model.digest)))
        for way, count in [*ways, *(checks if model.name == CHECKED else [])]:
            for first in range(0, count, settings.max_seqs):
                last, part = min(first + settings.max_seqs, count), place / way.name / f"{first:06d}.parquet"
                jobs.append(Job(model=model, way=way, first=first, last=last, part=part))
    return jobs


def champion(folder: str, tokens: int) -> Model:
    """The model that the trained one is compared with, of any architecture and tokenizer.

    Its content is no dependency of DVC's, which sees the folder's name alone: hence the digest.

    Args:
        folder: `evaluate.champion`.
        tokens: of the longest episode.

    Raises:
        InputError: it is no model in Hugging Face's form, or its context is shorter than an episode.
    """
    path = Path(folder).absolute()
    mend = "name a folder of a model in evaluate.champion, or null"
    for pattern in ("config.json", "tokenizer_config.json", "*.safetensors"):
        if not any(path.glob(pattern)):
            raise InputError(f"no champion here: {pattern} is missing", where=folder, mend=mend)
    positions = read_json(path / "config.json").get("max_position_embeddings")
    if positions is not None and positions < tokens:
        what = f"the champion's context of {positions} tokens is less than an episode's {tokens}"
        raise InputError(what, where=str(path / "config.json"), mend=mend)
    digest = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        digest.update(str(file.relative_to(path)).encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return Model(name="champion", folder=path, digest=digest.hexdigest()[:16])
