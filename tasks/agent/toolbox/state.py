"""What a tool remembers of a trajectory, out of reach of every other."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, MutableMapping
from typing import Any


class ForeignStateError(RuntimeError):
    """A call has touched the state of a trajectory that is not its own."""


_current: contextvars.ContextVar[str | None] = contextvars.ContextVar("trajectory", default=None)


class State(MutableMapping[str, Any]):
    """What a tool remembers of one trajectory, by name; freed at the trajectory's end.

    Only calls of that trajectory may touch it.

    Raises:
        ForeignStateError: on any access out of another trajectory's call.
    """

    def __init__(self, trajectory_id: str) -> None:
        self.trajectory_id = trajectory_id
        self._values: dict[str, Any] = {}

    def entered(self) -> contextvars.Context:
        """A context in which the state is at hand; a call runs in it."""
        context = contextvars.copy_context()
        context.run(_current.set, self.trajectory_id)
        return context

    def _own(self) -> dict[str, Any]:
        if _current.get() != self.trajectory_id:
            raise ForeignStateError(f"state of trajectory {self.trajectory_id} touched by another's call")
        return self._values

    def __getitem__(self, key: str) -> Any:
        return self._own()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._own()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._own()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own())

    def __len__(self) -> int:
        return len(self._own())
