"""What came of one arm with one seed, as plain data: from a stage's outputs, and to and from a JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import pandas as pd
from pydantic import Field, ValidationError, model_validator

from tasks.errors import InputError
from tasks.files import read_json, write_json
from tasks.sections import Count, Float, Section, Share, refusal

MODELS = ("base", "sft", "rl")
REWARD = "episode/score"
GENERATIONS = "training/filter_groups/generations_per_batch"
COLUMNS = ["model", "question_id", "data_source", "hops", "em", "searches", "format_valid"]


class Questions(Section):
    """The held-out questions, ids ascending; three lists of one length. `hops` is 0 where it is not known."""

    id: Annotated[list[str], Field(min_length=1)]
    kind: list[str]
    hops: list[Count]


class Model(Section):
    """A model's greedy answers: `em` 0 or 1 a question, in the questions' order; the others are means over them."""

    em: list[Annotated[int, Field(ge=0, le=1)]]
    searches: Float
    format_rate: Share


class Step(Section):
    """A training step as data/rl/steps.jsonl has it, numbers alone."""

    step: Count
    data: dict[str, Annotated[float, Field(strict=False)]]


class Validation(Section):
    """Means over the validation questions."""

    em: Share
    searches: Float


class Result(Section):
    """An arm with a seed.

    Attributes:
        machine: in words, such as "2 cores (x86_64)".
        models: base, sft and rl.
        steps: of training, ascending; `episode/score` is in each.
        validation: by RL step; "0" is before the first.
        seconds_per_step: mean of RL's steps.
        generations_per_batch: groups generated for a group trained on; 1 where nothing is filtered.
    """

    arm: str
    seed: int
    profile: str
    commit: str
    machine: str
    questions: Questions
    models: dict[str, Model]
    steps: Annotated[list[Step], Field(min_length=1)]
    validation: Annotated[dict[Annotated[str, Field(pattern=r"^\d+$")], Validation], Field(min_length=1)]
    seconds_per_step: Float
    generations_per_batch: Annotated[float, Field(ge=1, strict=False)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        n = len(self.questions.id)
        if sorted(set(self.questions.id)) != self.questions.id:
            raise ValueError("the questions' ids must ascend, each once")
        if len(self.questions.kind) != n or len(self.questions.hops) != n:
            raise ValueError("the questions' lists differ in length")
        if set(self.models) != set(MODELS):
            raise ValueError(f"models must be {', '.join(MODELS)}")
        if any(len(model.em) != n for model in self.models.values()):
            raise ValueError(f"a model has not one em for each of the {n} questions")
        if any(REWARD not in step.data for step in self.steps):
            raise ValueError(f"a step has no {REWARD}")
        return self


def from_outputs(
    *,
    arm: str,
    seed: int,
    profile: str,
    commit: str,
    machine: str,
    trajectories: pd.DataFrame,
    steps: Sequence[Mapping[str, Any]],
    validation: Mapping[str, Mapping[str, Mapping[str, float]]],
    seconds_per_step: float,
    prompts: int,
) -> Result:
    """What the stages rl and evaluate have left, as a result.

    Args:
        arm: its name; and so on, see `Result`.
        seed: of everything.
        profile: that the arm lies over.
        commit: git's.
        machine: in words.
        trajectories: data/evaluate/trajectories.parquet; `COLUMNS` are read.
        steps: data/rl/steps.jsonl, as `training.steps.read_steps` gives them.
        validation: data/rl/figures.json's, `{STEP: {KIND: {"em", "searches", "n"}}}` with the kind `all`.
        seconds_per_step: data/rl/figures.json's.
        prompts: questions a step, `rl.prompts`.
    """
    ordered = trajectories.sort_values("question_id", kind="stable")
    of = {name: ordered[ordered["model"] == name] for name in MODELS}
    asked = of["rl"]
    trained = [step for step in steps if REWARD in step["data"]]
    content = {
        "arm": arm,
        "seed": seed,
        "profile": profile,
        "commit": commit,
        "machine": machine,
        "questions": {
            "id": asked["question_id"].tolist(),
            "kind": asked["data_source"].str.removeprefix("world-").tolist(),
            "hops": asked["hops"].fillna(0).astype(int).tolist(),
        },
        "models": {
            name: {
                "em": part["em"].astype(int).tolist(),
                "searches": float(part["searches"].mean()),
                "format_rate": float(part["format_valid"].mean()),
            }
            for name, part in of.items()
        },
        "steps": [
            {"step": step["step"], "data": {name: value for name, value in step["data"].items() if _is_number(value)}}
            for step in trained
        ],
        "validation": {
            step: {name: float(kinds["all"][name]) for name in ("em", "searches")} for step, kinds in validation.items()
        },
        "seconds_per_step": seconds_per_step,
        "generations_per_batch": _generations([step["data"] for step in trained], prompts),
    }
    return parse(content, where=f"arm {arm}, seed {seed}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _generations(steps: Sequence[Mapping[str, Any]], prompts: int) -> float:
    """Groups generated for a group trained on, mean over the steps."""
    costs = [
        step.get(GENERATIONS, step.get("training/keep_groups/generated_groups", prompts) / prompts) for step in steps
    ]
    return sum(costs) / max(1, len(costs))


def parse(content: Any, where: str) -> Result:
    """Check a result's plain content.

    Raises:
        InputError: a key is missing or unknown, or a value is wrong.
    """
    try:
        return Result.model_validate(content)
    except ValidationError as error:
        raise refusal(error, Result, where=where) from None


def write(result: Result, folder: Path) -> Path:
    """Write a result as `ARM-seed-N.json`; returns the file."""
    path = folder / f"{result.arm}-seed-{result.seed}.json"
    write_json(path, result.model_dump(mode="json"))
    return path


def read(folder: Path) -> list[Result]:
    """The results in a folder, one a JSON file.

    Raises:
        InputError: there is none, one is wrong, or two are of the same arm and seed.
    """
    found: dict[tuple[str, int], Result] = {}
    for path in sorted(folder.glob("*.json")):
        one = parse(read_json(path), where=str(path))
        if (one.arm, one.seed) in found:
            raise InputError(f"a second result of arm {one.arm}, seed {one.seed}", where=str(path), mend="keep one")
        found[one.arm, one.seed] = one
    if not found:
        raise InputError("no results (*.json)", where=str(folder))
    return list(found.values())
