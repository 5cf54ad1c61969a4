"""The one exception that means: the input or the parameters are wrong, not the program."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


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


@contextlib.contextmanager
def exit_on_input_error(name: str) -> Iterator[None]:
    """End the process with code 2 and one line when the input or the parameters are wrong."""
    try:
        yield
    except InputError as error:
        print(f"{name}: error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from None
