"""The sections `evaluate` and `gate` as pydantic models; params/defaults.yaml says what each key means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.sections import Count, Float, Positive, Section

Preset = Literal["production"]  # params/presets/NAME.yaml
Inner = Annotated[float, Field(gt=0, lt=1)]  # a share that is neither none nor all


class BatchCheck(Section):
    """How many greedy answers change when fewer sequences make up a batch."""

    questions: Positive
    max_seqs: Annotated[list[Positive], Field(min_length=1)]


class PassAt(Section):
    """Sampling for pass@k."""

    k: Annotated[list[Positive], Field(min_length=1)]
    samples: Positive
    temperature: Float

    @model_validator(mode="after")
    def _enough(self) -> PassAt:
        if max(self.k) > self.samples:
            raise ValueError(f"samples: pass@{max(self.k)} needs as many samples at least, got {self.samples}")
        return self


class Ability(Section):
    """Multiple-choice questions by log-likelihood, for what a model could before; `file` null: a generated set."""

    file: str | None
    questions: Positive


class Outside(Section):
    """A benchmark that is a command of its own; `{model}` in it becomes the model's folder."""

    command: Annotated[list[str], Field(min_length=1)]
    models: Annotated[list[str], Field(min_length=1)]
    seconds: Positive


class Report(Section):
    """What the report shows."""

    examples: Positive
    trajectories: Positive
    audit: Count


class Evaluate(Section):
    """What is played, measured and shown of the trained models."""

    questions: Positive
    confidence: Inner
    bootstrap: Positive
    max_seqs: Positive
    engines: Positive
    champion: str | None
    batch_check: BatchCheck | None
    pass_at: PassAt | None
    ability: Ability | None
    outside: dict[str, Outside]
    report: Report


class Check(Section):
    """A threshold: an error rejects, a warning is told."""

    expression: str
    severity: Literal["error", "warning"]


class Gate(Section):
    """What a release must keep to."""

    preset: Preset | None
    half_width: Inner | None
    checks: dict[str, Check | None]

    @model_validator(mode="after")
    def _refuses_something(self) -> Gate:
        if not any(check is not None and check.severity == "error" for check in self.checks.values()):
            raise ValueError("checks: none of severity error is left, so whatever was trained would be released")
        return self
