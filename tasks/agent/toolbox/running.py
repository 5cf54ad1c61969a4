"""Running tools in this process, so that none can hold, break or flood an episode.

Each call runs in a thread of its own, under a time-out: a call that hangs is given up, and its thread, which nobody
can end, is left behind and ends with the process. A tool that must not outlive its call belongs behind the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

from pydantic import ValidationError

from tasks.agent.toolbox.base import Context, Failure, Passage, Result, Tool, blaming, tool_classes
from tasks.agent.toolbox.bounded import bounded
from tasks.agent.toolbox.state import ForeignStateError, State
from tasks.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from tasks.agent.protocols.base import Call

log = logging.getLogger("forager.tools")

MOST_PASSAGES = 256  # of one result
ID_CHARACTERS = 256  # of a passage's id; what is longer is cut


@dataclass(frozen=True)
class Limits:
    """Limits of the calls.

    Attributes:
        seconds: of one call.
        characters: of one result's text, and of its passages together, ids included; what is longer is cut, before
            it is tokenised or sent anywhere.
        parallel: calls of one turn that are run; the others fail as `surplus`.
    """

    seconds: float
    characters: int = 65_536
    parallel: int = 1


class Tools(Interface):
    """The tools of an episode, wherever they run."""

    names: tuple[str, ...]

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as OpenAI's function schemas."""
        ...

    async def call(self, trajectory_id: str, calls: Sequence[Call]) -> list[Result]:
        """Run one turn's calls side by side; a result for each, in their order, failed or not.

        Raises:
            InputError: a tool has found that the parameters are wrong.
        """
        ...

    async def release(self, trajectory_id: str) -> None:
        """The trajectory has ended: free what the tools remember of it."""
        ...


def build(
    names: Sequence[str], context: Context, opening: Callable[[str], object] = lambda name: None
) -> dict[str, Tool]:
    """Open tools by name.

    Args:
        names: as in `tools.names`.
        context: what they may be built from.
        opening: called with each name before that tool is opened.

    Raises:
        InputError: there is no such tool, or it cannot be opened.
    """
    tools = {}
    for name, tool in tool_classes(names).items():
        opening(name)
        with blaming(tool):
            tool.schema()  # here, since whoever asks for it later could blame nobody
            tools[name] = tool(context)
    return tools


class Toolbox:
    """Tools in this process; see `Tools`."""

    def __init__(self, tools: dict[str, Tool], limits: Limits) -> None:
        self._tools, self._limits = tools, limits
        self.names = tuple(tools)
        self._states: dict[str, dict[str, State]] = {}

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [tool.schema() for tool in self._tools.values()]

    @property
    def trajectories(self) -> int:
        """How many trajectories the tools remember something of."""
        return len(self._states)

    async def call(self, trajectory_id: str, calls: Sequence[Call]) -> list[Result]:
        taken, surplus = calls[: self._limits.parallel], calls[self._limits.parallel :]
        results = await asyncio.gather(*(self._one(trajectory_id, call) for call in taken))
        return [*results, *(Result(failure="surplus") for _ in surplus)]

    async def release(self, trajectory_id: str) -> None:
        left = self._states.pop(trajectory_id, {}).items()
        # Side by side: one that hangs keeps no other from being freed.
        await asyncio.gather(*(self._bounded(state, partial(self._tools[name].release, state)) for name, state in left))

    async def _one(self, trajectory_id: str, call: Call) -> Result:
        start = time.perf_counter()
        result = await self._checked(trajectory_id, call)
        return result.after(time.perf_counter() - start)

    async def _checked(self, trajectory_id: str, call: Call) -> Result:
        tool = self._tools.get(call.tool)
        if tool is None:
            return Result(failure="unknown")
        states = self._states.setdefault(trajectory_id, {})
        state = states.setdefault(call.tool, State(trajectory_id))

        def work() -> str | Result | None:
            raw = tool.parse(call.text) if call.arguments is None else call.arguments
            if raw is None:
                return None
            try:
                arguments = tool.checked(raw)
            except ValidationError:
                return None
            return tool.call(arguments, state)

        outcome = await self._bounded(state, work)
        return outcome if isinstance(outcome, Result) else _failed(outcome)

    async def _bounded(self, state: State, work: Callable[[], Any]) -> Result | Failure:
        """Run `work` with the state at hand; its outcome as a result, or why there is none.

        Raises:
            InputError: of `work`.
        """
        try:
            return await bounded(lambda: fitted(work(), self._limits.characters), self._limits.seconds, state.entered())
        except TimeoutError:
            return "timeout"
        except ForeignStateError:
            return "state"
        except UnavailableError as error:
            if error.spent:
                return "spent"
            log.warning("a tool is not available: %s", error)
            return "unavailable"
        except InputError:
            raise
        except Exception:
            log.exception("a tool has failed")
            return "raised"


def fitted(outcome: Any, limit: int) -> Result | Failure:
    """A tool's own return value, checked and cut to `Limits.characters` and `MOST_PASSAGES`; or why there is none."""
    if outcome is None:
        return "arguments"
    if isinstance(outcome, str):
        outcome = Result(outcome)
    if not isinstance(outcome, Result) or outcome.failure is not None:  # why a call failed is not the tool's to say
        return "result"
    if not (isinstance(outcome.text, str) and isinstance(outcome.done, bool)):
        return "result"
    if not isinstance(outcome.passages, tuple | list):
        return "result"
    passages = outcome.passages[:MOST_PASSAGES]
    if not all(
        isinstance(one, Passage) and all(isinstance(value, str) for value in (one.id, one.title, one.text))
        for one in passages
    ):
        return "result"
    return Result(_whole(outcome.text[:limit]), tuple(_cut(passages, limit)), outcome.done)


def _whole(text: str) -> str:
    """The text with whatever is no character, such as half of a surrogate pair, replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cut(passages: Iterable[Passage], limit: int) -> Iterator[Passage]:
    """As many passages as have `limit` characters in all, ids included; the last of them may be shortened.

    A passage takes one at least, for its frame; one whose id does not fit is left out.
    """
    for passage in passages:
        name = passage.id[:ID_CHARACTERS]
        limit -= max(1, len(name))
        if limit < 0:
            return
        title = passage.title[:limit]
        text = passage.text[: limit - len(title)]
        limit -= len(title) + len(text)
        yield Passage(_whole(name), _whole(title), _whole(text))


def _failed(kind: Failure) -> Result:
    return Result(failure=kind)
