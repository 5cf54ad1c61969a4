"""Environments: what the policy is trained on. One folder each; adding one adds a folder and edits nothing else.

`NAME/environment.py` holds one class `Environment` after the interface below.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, get_args
from typing import Protocol as Interface

from pydantic import BaseModel, ValidationError

from tasks.errors import InputError

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


def names() -> list[str]:
    """Names of the environments there are."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def _class(name: str, where: str | None) -> type[Any]:
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"environments are: {', '.join(names())}"
        raise InputError(f"environment.name: no environment {name!r}", where=where, mend=hint)
    return importlib.import_module(f"{__name__}.{name}.environment").Environment


def _holder(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that a path of keys leads to."""
    for key in path:
        kind = model.model_fields[str(key)].annotation
        model = next(one for one in (*get_args(kind), kind) if isinstance(one, type) and issubclass(one, BaseModel))
    return model


def environment_params(section: Any, where: str | None = None) -> BaseModel:
    """Check an `environment` section against the model of the environment it names.

    Raises:
        InputError: there is no such environment, or a key or value is wrong.
    """
    model = _class(section.name, where).Params
    try:
        return model.model_validate({k: v for k, v in section.model_dump().items() if k != "name"})
    except ValidationError as error:
        # An unknown key comes first: where a key is misspelt, the one that is meant is missing as well.
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        key = "environment." + ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            valid = list(_holder(model, first["loc"][:-1]).model_fields)
            near = difflib.get_close_matches(str(first["loc"][-1]), valid, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"its keys are: {', '.join(valid)}"
            raise InputError(f"unknown key {key!r}", where=where, mend=hint) from None
        if first["type"] == "missing":
            raise InputError(f"key {key!r} is missing", where=where, mend="name it") from None
        raise InputError(f"{key}: {first['msg'].removeprefix('Value error, ')}", where=where) from None


def create(section: Any) -> Environment:
    """The environment that an `environment` section names."""
    return _class(section.name, None)(environment_params(section))
