"""Opening of a file: what is there, whether it is what its name says, and streams of its bytes."""

from __future__ import annotations

import contextlib
import difflib
import errno
import gzip
import hashlib
import io
import stat
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from tasks.errors import InputError

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_LFS = b"version https://git-lfs"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
PARQUET = b"PAR1"
# A file without line breaks must not fill the memory.
LONGEST_LINE = 1 << 26
# Beginnings of files that are no text, and what to do with them.
_OTHERS = {
    PARQUET: ("a parquet file", "let its name end with .parquet, and use the reader parquet, or verl"),
    b"PK\x03\x04": ("a zip archive", "unpack it"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it, or pack it with gzip"),
    b"\xfd7zXZ": ("compressed with xz", "unpack it, or pack it with gzip"),
    b"BZh": ("compressed with bzip2", "unpack it, or pack it with gzip"),
}
_SHOWN = 4
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _content(folder: Path) -> tuple[list[str], str]:
    """The names in a folder, and what is said of them."""
    try:
        names = sorted(one.name for one in folder.iterdir())
    except OSError as error:
        return [], f"can't be listed: {error.strerror}"
    more = ", ..." if len(names) > _SHOWN else ""
    return names, f"holds {', '.join(names[:_SHOWN]) or 'nothing'}{more}"


def regular(path: Path) -> None:
    """Refuse a path at which no file with content is.

    Raises:
        InputError: nothing is there, or a folder, a pipe, a device, an empty file, or a pointer of Git LFS; or it
            can't be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError("is a folder, not a file", where=str(path), mend=f"name a file; it {_content(path)[1]}")
        if not stat.S_ISREG(mode):
            what = _KINDS.get(stat.S_IFMT(mode), "no regular file")
            raise InputError(f"is {what}, not a file", where=str(path), mend="write what it gives to a file")
        with path.open("rb") as file:
            head = file.read(len(_LFS))
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError as error:  # a NUL
        raise InputError(f"no path that a file can have: {error}", where=repr(str(path))) from None
    if not head:
        raise InputError("the file is empty", where=str(path), mend="fetch it again, or leave the source out")
    if head == _LFS:
        raise InputError("is a pointer of Git LFS, not the file itself", where=str(path), mend="run `git lfs pull`")


def _unreadable(path: Path, error: OSError) -> InputError:
    if error.errno == errno.ELOOP:
        return InputError("is a link that leads back to itself", where=str(path), mend="name the file itself")
    if error.errno == errno.EACCES:
        mend = f"give the one who runs this the right to read it, and to enter the folder {path.parent}"
        return InputError("can't be read: no permission", where=str(path), mend=mend)
    return InputError(f"can't be read: {error.strerror or error}", where=str(path))


def _missing(path: Path) -> InputError:
    folder = path.parent
    if path.is_symlink():
        mend = "name the file itself"
        return InputError(f"is a link to {path.readlink()}, where nothing is", where=str(path), mend=mend)
    if not folder.is_dir():
        return InputError(
            "no such file", where=str(path), mend=f"there is no folder {folder} either; see ingest.data_dir"
        )
    names, told = _content(folder)
    near = difflib.get_close_matches(path.name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"looked in {folder}, which {told}"
    return InputError("no such file", where=str(path), mend=hint)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file of UTF-8 text as bytes, unpacked when its name ends with .gz; a byte order mark is passed over.

    Raises:
        InputError: also while it is read: the file is missing, empty, damaged, or no UTF-8 text.
    """
    regular(path)
    packed = path.suffix == ".gz"
    try:
        with path.open("rb") as raw:
            if (raw.read(2) == _GZIP) != packed:
                said, mend = ("named .gz and isn't gzip", "drop .gz from") if packed else ("is gzip", "add .gz to")
                raise InputError(said, where=str(path), mend=f"{mend} its name")
            raw.seek(0)
            file = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw))) if packed else raw
            head = file.peek(8)[:8]
            _refuse_other(head, path)
            if head.startswith(_BOM):
                file.read(len(_BOM))
            yield cast(BinaryIO, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"damaged gzip file: {error}", where=str(path), mend="fetch it again") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines, from 1, with their ends.

    Raises:
        InputError: the file can't be read, its lines end with CR alone, or one is longer than `LONGEST_LINE` bytes.
    """
    with opened(path) as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), start=1):
            if number == 1 and b"\r" in line.rstrip(b"\r\n"):
                mend = "write them otherwise: `tr '\\r' '\\n'`"
                raise InputError("its lines end with CR alone", where=str(path), mend=mend)
            if len(line) == LONGEST_LINE:
                mend = "is it one row a line?"
                raise InputError(f"longer than {LONGEST_LINE:,} bytes", where=f"{path}, line {number}", mend=mend)
            yield number, line


def no_rows(path: Path) -> InputError:
    """A file with nothing in it that counts."""
    return InputError("the file holds no rows", where=str(path), mend="fetch it again, or leave the source out")


def _refuse_other(head: bytes, path: Path) -> None:
    for beginning, (what, mend) in _OTHERS.items():
        if head.startswith(beginning):
            raise InputError(f"is {what}, not text", where=str(path), mend=mend)
    if head.startswith(_UTF16) or head[1:2] == b"\0" or head[:1] == b"\0":
        raise InputError("is UTF-16, not UTF-8", where=str(path), mend="convert it: `iconv -f UTF-16 -t UTF-8`")
    if head.lstrip().startswith((b"<!", b"<html")):
        raise InputError("is a web page, not data", where=str(path), mend="fetch the file itself")


def sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
