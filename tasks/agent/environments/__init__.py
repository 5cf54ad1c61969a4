"""Environments: what the policy is trained on. One folder each; adding one adds a folder and edits nothing else.

`NAME/environment.py` holds one class `Environment` after the interface below.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, runtime_checkable
from typing import Protocol as Interface

from pydantic import BaseModel, ValidationError

from tasks.errors import InputError
from tasks.sections import refusal

if TYPE_CHECKING:
    from tasks.agent.prompts import Template
    from tasks.agent.trajectory import Trajectory


class Environment(Interface):
    """What an environment offers.

    Attributes:
        Params: pydantic model of its parameters.
        name: the folder's name, as in `environment.name`.
        needs_retrieval: whether an index is built and searched.
    """

    name: str
    needs_retrieval: bool
    Params: type[BaseModel]

    def prompt(self, question: str, template: Template) -> list[dict[str, str]]:
        """Chat messages that pose a question."""
        ...

    def ground_truth(self, question: dict[str, Any]) -> Any:
        """What `reward_model.ground_truth` holds for a question."""
        ...

    def score(self, trajectory: Trajectory, row: dict[str, Any]) -> None:
        """Fill in success, reward, reward_parts and the answer scores of a finished trajectory."""
        ...


@runtime_checkable
class PaysTurns(Interface):
    """What an environment offers besides, where it can tell what a single turn was worth (`rl.credit.level: turn`)."""

    def turn_rewards(self, trajectory: Trajectory, row: dict[str, Any]) -> list[float]:
        """What each turn of a scored trajectory was worth by itself, shape (turns,)."""
        ...


def turn_rewards(environment: Environment, trajectory: Trajectory, row: dict[str, Any]) -> list[float]:
    """What each turn was worth, shape (turns,); zeros of an environment that cannot tell."""
    if isinstance(environment, PaysTurns):
        return environment.turn_rewards(trajectory, row)
    return [0.0] * trajectory.turns


def pays_turns(section: Any) -> bool:
    """Whether the environment that an `environment` section names can tell what a turn was worth."""
    return issubclass(_class(section.name, None), PaysTurns)


def names() -> list[str]:
    """Names of the environments there are."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def _class(name: str, where: str | None) -> type[Any]:
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"environments are: {', '.join(names())}"
        raise InputError(f"environment.name: no environment {name!r}", where=where, mend=hint)
    return importlib.import_module(f"{__name__}.{name}.environment").Environment


def environment_params(section: Any, where: str | None = None) -> BaseModel:
    """Check an `environment` section against the model of the environment it names.

    Raises:
        InputError: there is no such environment, or a key or value is wrong.
    """
    model = _class(section.name, where).Params
    try:
        return model.model_validate({k: v for k, v in section.model_dump().items() if k != "name"})
    except ValidationError as error:
        raise refusal(error, model, where=where, below="environment.") from None


def create(section: Any) -> Environment:
    """The environment that an `environment` section names."""
    return _class(section.name, None)(environment_params(section))
