"""What the models of parameters are built from, here and in rooms that have parameters of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A frozen group of parameters that refuses unknown keys and wrong types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]
Float = Annotated[float, Field(strict=False, allow_inf_nan=False, ge=0)]


class SplitCounts(Section):
    """A number for each split."""

    train: Positive
    validation: Positive
    test: Positive

    def by_split(self) -> dict[Literal["train", "validation", "test"], int]:
        """The numbers by the split's name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}
