"""Interactions: a simulated user who may answer an answer. One file each, found by its name.

`NAME.py` holds one class `Interaction` after the interface below. verl had this as its state INTERACTING; 0.9.1
has it no more.
"""

from __future__ import annotations

import difflib
import pkgutil
from typing import Any
from typing import Protocol as Interface

from tasks.errors import InputError, import_file


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


def find(name: str, where: str | None = None) -> type[Interaction]:
    """The class of the interaction of that name, which is not made yet.

    Args:
        name: as in `episode.interaction`.
        where: the files that it is named in.

    Raises:
        InputError: there is none, or its file cannot be imported or holds none.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"interactions are: {', '.join(names)}"
        raise InputError(f"episode.interaction: no interaction {name!r}", where=where, mend=hint)
    found: type[Interaction] | None = getattr(import_file(f"{__name__}.{name}"), "Interaction", None)
    if found is None:
        raise InputError(f"episode.interaction: the file of {name!r} holds no class Interaction", where=where)
    return found


def create(name: str | None) -> Interaction | None:
    """The interaction of that name.

    Raises:
        InputError: there is none, or its file cannot be imported or holds none.
    """
    return None if name is None else find(name)()
