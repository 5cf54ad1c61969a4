"""What a tool is: a class with `usage`, `parse` and `call`, registered by decoration and found by itself.

A tool's file stands in `tasks/agent/tools/`. One object of it serves all episodes of a process, many at a time and from
different threads; what it remembers of one trajectory lies in the `State` that it is given.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.agent.toolbox.nesting import decoded
from tasks.agent.toolbox.state import State
from tasks.errors import InputError, import_file

# Why a call brought no result; counted in the trajectory, and named to the policy in the system's own words.
Failure = Literal[
    "unknown", "arguments", "timeout", "raised", "unavailable", "spent", "state", "result", "worker", "surplus"
]

# No tool's name, in any case: tags of the protocols, and the record's name for the simulated user.
RESERVED = frozenset(
    ["think", "information", "answer", "fact", "tool_call", "tool_response", "function", "parameter", "user"]
)


@dataclass(frozen=True)
class Passage:
    """A passage that a tool shows."""

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Result:
    """What a call brought.

    Attributes:
        text: what is shown; with passages, the protocol writes them instead.
        passages: what was found, best first; an answer may cite them.
        done: whether the episode ends with this call.
        failure: why there is no result; None when there is one.
        seconds: how long the call took; filled in by the caller.
    """

    text: str = ""
    passages: tuple[Passage, ...] = ()
    done: bool = False
    failure: Failure | None = None
    seconds: float = 0.0

    def after(self, seconds: float) -> Result:
        """The same result with the time that it took."""
        return replace(self, seconds=seconds)


@dataclass(frozen=True)
class Context:
    """What tools may be built from.

    Attributes:
        index: folder of the retrieval index; None where no index was built.
        retrieval: the section `retrieval`.
    """

    index: Path | None = None
    retrieval: Any = None


class NoArguments(BaseModel):
    """Arguments of a tool that takes none."""

    model_config = ConfigDict(extra="forbid")


class Tool:
    """A tool: what it is for (`usage`), how its text is read (`parse`), what it does (`call`).

    Attributes:
        name: the word between the tags, and the function's name; set by `register`'s class.
        description: one sentence for the policy.
        Arguments: pydantic model of the arguments: their names, types and descriptions make the JSON schema.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    Arguments: ClassVar[type[BaseModel]] = NoArguments

    def __init__(self, context: Context) -> None:
        """Open what the tool needs; once a process."""

    @classmethod
    def usage(cls) -> str:
        """How a turn asks for it, for the prompt's `{tools}`; in words of the tag protocols."""
        return f"<{cls.name}> ... </{cls.name}>: {cls.description}"

    def parse(self, text: str) -> Mapping[str, Any] | None:
        """Arguments out of what stands between the tags; None when it makes no sense.

        By default a tool with one argument takes the text as it is, and any other a JSON object.
        """
        names = list(self.Arguments.model_fields)
        if len(names) == 1:
            return {names[0]: text}
        try:
            value = decoded(text) if text else {}
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def checked(self, raw: Mapping[str, Any]) -> Any:
        """An object of `Arguments`.

        Text that does not fit is read as JSON and tried once more: protocols without JSON, such as qwen3_coder, say
        lists, objects and null as text. Numbers and booleans in text fit as they are.

        Raises:
            pydantic.ValidationError: they do not fit.
        """
        try:
            return self.Arguments.model_validate(dict(raw))
        except ValidationError as error:
            values = {**raw, **dict(_decoded(raw, {str(found["loc"][0]) for found in error.errors() if found["loc"]}))}
            if values == raw:
                raise
        return self.Arguments.model_validate(values)

    def call(self, arguments: Any, state: State) -> str | Result:
        """Do it. Runs in a thread of its own, under a time-out.

        Args:
            arguments: an object of `Arguments`.
            state: what the tool remembers of this trajectory, empty at first.

        Raises:
            UnavailableError: what it needs cannot be had now; the call fails as `unavailable`, or as `spent`.
            InputError: the parameters are wrong, and every call will fail: the stage ends.
            Exception: the call fails as `raised`.
        """
        raise NotImplementedError

    def release(self, state: State) -> None:
        """The trajectory has ended: close what its state holds. Nothing by default."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The tool as OpenAI's function schema, as chat templates and verl's BaseTool take it."""
        parameters = cls.Arguments.model_json_schema()
        properties = {
            name: {key: value for key, value in of.items() if key != "title"}
            for name, of in parameters.get("properties", {}).items()
        }
        return {
            "type": "function",
            "function": {
                "name": cls.name,
                "description": cls.description,
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(parameters.get("required", [])),
                    **{key: parameters[key] for key in ("$defs",) if key in parameters},
                },
            },
        }


def _decoded(raw: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Those of the named values that are JSON in text, decoded."""
    for name in names:
        with contextlib.suppress(ValueError):  # then the text stays what it is, and does not fit
            if isinstance(raw.get(name), str):
                yield name, decoded(raw[name])


@contextlib.contextmanager
def blaming(tool: type[Tool]) -> Iterator[None]:
    """Run a tool's own code where nothing can go on without it.

    Raises:
        InputError: it has raised; the line names the tool, the place in its file and the error.
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        file = sys.modules[tool.__module__].__file__
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        said = " ".join(f"{type(error).__name__}: {error}".split())
        where = f"{file}, line {lines[-1]}" if lines else None
        raise InputError(f"tool {tool.name!r} cannot be used: {said}", where=where) from error


_tools: dict[str, type[Tool]] = {}


def register(tool: type[Tool]) -> type[Tool]:
    """Class decorator: make a tool known by its `name`.

    Raises:
        ValueError: another class has that name, the name can be no tag, its usage needs an object, or it awaits.
    """
    name = tool.name
    if not (name.isascii() and name.isidentifier()) or name.casefold() in RESERVED:
        raise ValueError(f"{name!r} cannot be a tool's name: it must be an ASCII identifier, and no tag of a protocol")
    for method in ("parse", "call", "release"):
        if inspect.iscoroutinefunction(getattr(tool, method)):
            raise ValueError(f"tool {name!r}: {method} must be a plain def, not async: it has a thread of its own")
    if not inspect.ismethod(tool.usage):
        # Prompts are written before any tool is opened.
        raise ValueError(f"tool {name!r}: usage must be a classmethod")
    known = _tools.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (tool.__module__, tool.__qualname__):
        raise ValueError(f"two tools are called {name!r}: {known.__module__} and {tool.__module__}")
    _tools[name] = tool
    return tool


def known_tools() -> dict[str, type[Tool]]:
    """All tools of the folder `tasks/agent/tools/`, by name.

    Raises:
        InputError: a file of the folder cannot be imported.
    """
    package = importlib.import_module("tasks.agent.tools")
    for module in pkgutil.iter_modules(package.__path__):
        import_file(f"{package.__name__}.{module.name}")
    return dict(sorted(_tools.items()))


def tool_classes(names: Sequence[str], where: str | None = None) -> dict[str, type[Tool]]:
    """The tools of these names, in their order.

    Args:
        names: as in `tools.names`.
        where: the files that they are named in.

    Raises:
        InputError: there is no such tool, or a file of the folder cannot be imported.
    """
    known = known_tools()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"tools are: {', '.join(known)}"
            raise InputError(f"tools.names: no tool {name!r}", where=where, mend=hint)
    return {name: known[name] for name in names}
