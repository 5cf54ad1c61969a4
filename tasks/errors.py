"""Exceptions that stages, rooms and servers share."""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType


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


class UnavailableError(RuntimeError):
    """What a call needs cannot be had now: that call fails, and nothing else.

    Args:
        why: for the log.
        spent: whether it was refused because no more calls may be made, and not because something is broken.
    """

    def __init__(self, why: str, *, spent: bool = False) -> None:
        super().__init__(why)
        self.spent = spent


class CrashError(RuntimeError):
    """A command that a stage has started has failed: a server before it was ready, a benchmark. Its output says where.

    A stage that meets it ends with exit code 1 and this one line.
    """


@contextlib.contextmanager
def exit_on_input_error(name: str) -> Iterator[None]:
    """End the process with code 2 and one line when the input or the parameters are wrong."""
    try:
        yield
    except InputError as error:
        print(f"{name}: error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from None


def import_file(name: str) -> ModuleType:
    """Import a module of a folder that anybody may put a file into.

    Args:
        name: dotted name of the module.

    Raises:
        InputError: the import raises; the line names the file, the place in it and the error.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        file = f"{name.replace('.', '/')}.py"
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(file)]
        if isinstance(error, SyntaxError) and str(error.filename).endswith(file):
            lines = [error.lineno]
        where = f"{file}, line {lines[-1]}" if lines else file
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(
            f"cannot be imported: {type(error).__name__}: {said}", where=where, mend="mend the file, or take it away"
        ) from error
