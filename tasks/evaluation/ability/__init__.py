"""What a model could do before: multiple choice by log-likelihood, base against RL; docs/benchmarks.md has more."""

from tasks.evaluation.ability import generated
from tasks.evaluation.ability.figures import measure
from tasks.evaluation.ability.questions import Choices, read

__all__ = ["Choices", "generated", "measure", "read"]
