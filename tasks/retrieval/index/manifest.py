"""What an index folder says of itself: manifest.json for the whole, part.json in the folder of each part.

The manifest is written last: a folder without one is no finished index.

    {"corpus_sha256": ..., "passages": N, "parts": {PART: {its parameters}}, "versions": {PACKAGE: ...}}

Parts are bm25, dense, qdrant, and encoder: what makes the vectors of the last two.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.files import write_json
from tasks.params import searching

FILE = "manifest.json"
PART = "part.json"
_KEYS = {"corpus_sha256": str, "passages": int, "parts": dict, "versions": dict}
_MEND = "build it with `dvc repro index`"


def read(folder: Path) -> dict[str, Any]:
    """The manifest of an index folder.

    Raises:
        InputError: it is missing or not whole, so the folder is no finished index.
    """
    found = _read(folder / FILE)
    for key, kind in _KEYS.items():
        if not isinstance(found.get(key), kind):
            raise InputError(f"the manifest lacks {key!r}", where=str(folder / FILE), mend=_MEND)
    return found


def require(manifest: dict[str, Any], folder: Path, retriever: searching.Name, corpus_sha256: str | None) -> None:
    """Make sure that an index can serve a retriever.

    Args:
        manifest: of the index.
        folder: of the index.
        retriever: what is to search.
        corpus_sha256: the corpus that is meant; None: whichever the index was built of.

    Raises:
        InputError: the index is of another corpus, the retriever needs a part that was not built, or a part is of
            another corpus than the manifest says.
    """
    built = manifest["corpus_sha256"]
    if corpus_sha256 is not None and corpus_sha256 != built:
        raise _other_corpus(folder, built, corpus_sha256)
    needed = searching.NEEDS[retriever]
    for part in sorted(needed):
        if part not in manifest["parts"]:
            have = ", ".join(sorted(set(manifest["parts"]) - {"encoder"}))
            what = f"retriever {retriever!r} needs {part}, and the index holds {have}"
            mend = f"add {part} to index.build and build again, or choose another retriever"
            raise InputError(what, where=str(folder), mend=mend)
    # Qdrant's collection, which may lie on a cluster, says by itself what it is of.
    folders = set(needed) - {"qdrant"} | ({"encoder"} if needed & {"dense", "qdrant"} else set())
    for name in sorted(folders):
        require_part(folder / name, built)


def require_corpus(folder: Path, corpus: Path) -> None:
    """Make sure that an index is of a corpus, before anything is searched; where there is none, nothing is.

    Args:
        folder: of the index; without a manifest, as where nothing is searched, it is left to who opens it.
        corpus: the parquet file that is meant.

    Raises:
        InputError: the index is of another corpus.
    """
    if not (folder / FILE).exists():
        return
    built = read(folder)["corpus_sha256"]
    meant = sha256(corpus)
    if meant != built:
        raise _other_corpus(folder, built, meant)


def sha256(corpus: Path) -> str:
    """The hash by which a corpus is known: of its file."""
    with corpus.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_part(folder: Path, corpus_sha256: str) -> None:
    """Make sure that a part is of a corpus.

    Raises:
        InputError: it is of another one, or not whole.
    """
    require_same(folder, _read(folder / PART).get("corpus_sha256"), corpus_sha256)


def require_same(place: Path, found: Any, corpus_sha256: str) -> None:
    """Make sure that the corpus which a part names is the index's.

    Raises:
        InputError: it is another one.
    """
    if found != corpus_sha256:
        what = f"this part is of corpus {str(found)[:12] or 'unknown'}, and the index of corpus {corpus_sha256[:12]}"
        raise InputError(what, where=str(place), mend=_MEND)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Open a file or a part of an index inside the block.

    Raises:
        InputError: something of it is missing, cut off, or of another form.
    """
    # What Arrow, numpy, scipy, JSON and faiss (RuntimeError) say of such files.
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        why = " ".join(f"{type(error).__name__} {error}".split())[:300]
        raise InputError(f"cannot be read: {why}", where=str(path), mend=_MEND) from error


def write_part(folder: Path, corpus_sha256: str, parameters: dict[str, Any]) -> None:
    """Write what a part says of itself."""
    write_json(folder / PART, {"corpus_sha256": corpus_sha256, "parameters": parameters})


def _other_corpus(folder: Path, built: str, meant: str) -> InputError:
    what = f"the index is of corpus {built[:12]}, and corpus {meant[:12]} is meant"
    return InputError(what, where=str(folder), mend=_MEND)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no index here", where=str(path), mend=_MEND) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path), mend=_MEND) from None
    except ValueError as error:
        raise InputError(f"not JSON: {error}", where=str(path), mend=_MEND) from None
    if not isinstance(found, dict):
        raise InputError("not an object", where=str(path), mend=_MEND)
    return found
