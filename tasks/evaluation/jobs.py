"""What an evaluation has to play, cut into jobs: shards of questions, each played by one model in one way.

A shard has as many questions as an engine takes sequences, whatever the number of engines is: batches are made within
a shard, so neither the engines nor a kill can change what an episode shares its batches with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import InputError
from tasks.params.judging import Evaluate
from tasks.sections import Section


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

    @property
    def place(self) -> str:
        """Name of what is kept of this model, and of no other."""
        return "-".join(filter(None, (self.name, self.digest)))


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


class _Config(BaseModel):
    """What is asked of a model's `config.json`."""

    model_config = ConfigDict(strict=True)

    max_position_embeddings: int | None = None
    dtype: str | None = None
    torch_dtype: str | None = None  # its name before transformers 5


GREEDY = Way(name="greedy")


def sampled(settings: Evaluate) -> Way | None:
    """The way in which pass@k is played; None where it is not asked for."""
    if settings.pass_at is None:
        return None
    return Way(name="sampled", samples=settings.pass_at.samples, temperature=settings.pass_at.temperature)


def smaller_batches(settings: Evaluate) -> list[Way]:
    """The ways in which the check of the batch size plays."""
    sizes = settings.batch_check.max_seqs if settings.batch_check is not None else []
    return [Way(name=f"max-seqs-{size}", batch=size) for size in dict.fromkeys(sizes)]


def plan(models: Sequence[Model], settings: Evaluate, questions: int, folder: Path) -> list[Job]:
    """All jobs of an evaluation, model after model.

    Args:
        models: in the order in which they play; the answers of the last one are played again in smaller batches.
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
        place = folder / model.place
        for way, count in [*ways, *(checks if model is models[-1] else [])]:
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
        InputError: it is no model in Hugging Face's form, its dtype is unknown, or its context is shorter than an
            episode.
    """
    path = Path(folder).absolute()
    mend = "name a folder of a model in evaluate.champion, or null"
    for pattern in ("config.json", "tokenizer_config.json", "*.safetensors"):
        if not any(file.is_file() for file in path.glob(pattern)):
            raise InputError(f"no champion here: {pattern} is missing", where=folder, mend=mend)
    config = path / "config.json"
    try:
        about = _Config.model_validate_json(config.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{config}, key {first['loc'][0]}" if first["loc"] else str(config)
        raise InputError(f"no model's configuration: {first['msg']}", where=where, mend=mend) from None
    if (about.dtype or about.torch_dtype) is None:
        raise InputError("the champion's dtype is not said", where=str(config), mend='add it, as "dtype": "bfloat16"')
    if about.max_position_embeddings is not None and about.max_position_embeddings < tokens:
        what = f"the champion's context of {about.max_position_embeddings} tokens is less than an episode's {tokens}"
        raise InputError(what, where=str(config), mend=mend)
    digest = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        digest.update(str(file.relative_to(path)).encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return Model(name="champion", folder=path, digest=digest.hexdigest()[:16])
