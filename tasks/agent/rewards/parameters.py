"""Parameters of the parts of a reward; the table says whose they are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.sections import Float, Positive, Section


class Part(Section):
    """What all parts have: a weight."""

    weight: Float


class AnswerPart(Part):
    """Of a part that pays right answers: paid nothing, it would not be one."""

    weight: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]


class FormatPart(Part):
    """Of `outcome.format_score`."""

    decay_steps: Positive | None = None


class LengthPart(Part):
    """Of `length.soft_overlong`: Lmax and Lcache."""

    max_tokens: Positive
    cache_tokens: Positive

    @model_validator(mode="after")
    def _slope_fits(self) -> LengthPart:
        if self.cache_tokens > self.max_tokens:
            raise ValueError("cache_tokens must not be larger than max_tokens: the slope would start below 0 tokens")
        return self


class ThreePartPart(AnswerPart, LengthPart):
    """Of `outcome.three_part`."""


class StepsPart(Part):
    """Of `penalties.step_penalty`."""

    growth: Literal["linear", "quadratic"]


class QueriesPart(Part):
    """Of `penalties.repeated_queries`."""

    threshold: Annotated[float, Field(gt=0, le=1)]
