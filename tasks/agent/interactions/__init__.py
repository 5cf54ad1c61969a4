"""Interactions: a simulated user who may answer an answer. One file each, found by its name.

`NAME.py` holds one class `Interaction` after the interface below. verl had this as its state INTERACTING; 0.9.1
has it no more.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import Any
from typing import Protocol as Interface

from tasks.errors import InputError


class Interaction(Interface):
    """A simulated user. One object serves all episodes of a process; it runs under the time-out of a tool's call."""

    def reply(self, row: dict[str, Any], answer: str, said: int) -> str | None:
        """What the user says to an answer.

        Args:
            row: the question's row.
            answer: the policy's answer.
            said: how often the user has spoken in this episode.

        Returns:
            the user's words; None when there is nothing to say, and the answer stands.
        """
        ...


def create(name: str | None) -> Interaction | None:
    """The interaction of that name.

    Raises:
        InputError: there is none.
    """
    if name is None:
        return None
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"interactions are: {', '.join(names)}"
        raise InputError(f"episode.interaction: no interaction {name!r}", mend=hint)
    made: Interaction = importlib.import_module(f"{__name__}.{name}").Interaction()
    return made
