"""The one exception that means: the input or the parameters are wrong, not the program."""

from __future__ import annotations


class InputError(Exception):
    """Wrong input or parameters. A stage that meets it ends with exit code 2 and this one line.

    Args:
        what: what is wrong.
        where: file, row or key at which it was found.
        mend: how to put it right.
    """

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        self.what, self.where, self.mend = what, where, mend
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line}; {mend}" if mend else line)
