"""What the tool server serves, what each of its workers opens, and how it answers, whatever its kind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.agent.toolbox import wire
from tasks.agent.toolbox.base import Context
from tasks.agent.toolbox.bounded import THREAD
from tasks.agent.toolbox.running import Limits, Toolbox, build
from tasks.errors import InputError, import_file
from tasks.params import Playing, Retrieval


class WorkerLostError(RuntimeError):
    """A worker has died, is hung, or says what no worker says."""


class UnaskedError(WorkerLostError):
    """A worker had been lost before it was sent the message: another may be asked in its place."""


@dataclass(frozen=True)
class Spec:
    """What a worker opens.

    Attributes:
        names: of the tools.
        limits: of their calls.
        index: folder of the retrieval index; None where there is none.
        retrieval: the section `retrieval` as plain values.
        modules: modules to import first; they may register tools from outside `tasks/agent/tools/`.
    """

    names: tuple[str, ...]
    limits: Limits
    index: str | None = None
    retrieval: dict[str, Any] | None = None
    modules: tuple[str, ...] = ()

    def dump(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def load(cls, content: dict[str, Any]) -> Spec:
        """The opposite of `dump`."""
        return cls(
            names=tuple(content["names"]),
            limits=Limits(**content["limits"]),
            index=content["index"],
            retrieval=content["retrieval"],
            modules=tuple(content["modules"]),
        )


@dataclass(frozen=True)
class Settings:
    """What a server serves.

    Attributes:
        spec: what each worker opens.
        protocol: as `episode.protocol`; what other clients than our own are answered in.
        worker: kind of the workers.
        workers: how many; threads need but one toolbox.
    """

    spec: Spec
    protocol: str
    worker: str
    workers: int

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps({**vars(self), "spec": self.spec.dump()})

    @classmethod
    def load(cls, line: str) -> Settings:
        """The opposite of `dump`."""
        content = json.loads(line)
        return cls(**{**content, "spec": Spec.load(content["spec"])})

    @classmethod
    def of(cls, playing: Playing, index: Path | None, modules: Sequence[str] = ()) -> Settings:
        """What the sections that episodes are played by ask for."""
        tools, episode = playing.tools, playing.episode
        spec = Spec(
            names=tuple(tools.names),
            limits=Limits(seconds=episode.tool_seconds, parallel=episode.max_parallel_calls),
            index=None if index is None else str(index.absolute()),
            retrieval=playing.retrieval.model_dump(mode="json"),
            modules=tuple(modules),
        )
        return cls(spec, episode.protocol, tools.worker, tools.workers)


def _import(module: str) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"{module!r} is no module's name", where="--import")
    try:
        import_file(module)
    except InputError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and f"{module}.".startswith(f"{cause.name}."):
            raise InputError(f"there is no module {module!r}", where="--import") from error
        raise


class Answering:
    """A toolbox that answers messages of plain JSON values.

    Args:
        spec: what is opened.
        opening: called with the name of each tool before it is opened.

    Raises:
        InputError: there is no such module or tool, or it cannot be imported or opened.
    """

    def __init__(self, spec: Spec, opening: Callable[[str], object] = lambda name: None) -> None:
        for module in spec.modules:
            _import(module)
        retrieval = None if spec.retrieval is None else Retrieval.model_validate(spec.retrieval)
        tools = build(spec.names, Context(None if spec.index is None else Path(spec.index), retrieval), opening)
        self.toolbox = Toolbox(tools, spec.limits)
        self.tools = wire.describe(tools)
        self._running = 0

    async def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run a trajectory's `{"calls": [...]}`, free it (`{"release": true}`), or say how things stand (`{}`).

        Where a tool has found that the parameters are wrong, the answer is `{"trajectory": ..., "error": ...}`.
        """
        if not message.get("calls") and not message.get("release"):
            threads = sum(thread.name == THREAD for thread in threading.enumerate())
            return {"hung": threads - self._running}
        trajectory = str(message["trajectory"])
        if "release" in message:
            await self.toolbox.release(trajectory)
            return {"trajectory": trajectory}
        calls = wire.load_calls(message["calls"])
        self._running += len(calls)
        try:
            results = await self.toolbox.call(trajectory, calls)
        except InputError as error:
            return {"trajectory": trajectory, "error": str(error)}
        finally:
            self._running -= len(calls)
        return {"trajectory": trajectory, "results": wire.dump_results(results)}
