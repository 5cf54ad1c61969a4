"""What a source is: its keys in the parameters, where it comes from, and a stream of questions, passages and faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tasks.qa.records import Item
from tasks.sections import Section

if TYPE_CHECKING:
    from tasks.qa.corpus import Corpus


class Keys(Section):
    """What every entry of `ingest.sources` has; a source adds its own keys in a subclass."""

    reader: str


@dataclass(frozen=True)
class Context:
    """What a source may use.

    Attributes:
        folder: `ingest.data_dir`; relative paths start there.
        seed: of everything drawn.
        corpus: the passages that `ingest.corpus` names, None where it names none.
        passage_ids: of the passages that the run has so far; it grows while a source is read.
    """

    folder: Path
    seed: int
    corpus: Corpus | None
    passage_ids: Container[str] = ()


class Source(ABC):
    """A question set or a corpus in one form.

    Attributes:
        reader: its name in the parameters.
        Keys: pydantic model of its keys.
        upstream: where such data comes from: the paper and the data's own site.
        licence: of the data as published; `unknown` where it is the user's own.
        brings: what it is read for; questions may bring passages with them.
        looks_up_passages: whether it uses `Context.corpus`.
    """

    reader: ClassVar[str]
    Keys: ClassVar[type[Keys]] = Keys
    upstream: ClassVar[str] = ""
    licence: ClassVar[str] = "unknown"
    brings: ClassVar[Literal["questions", "passages"]]
    looks_up_passages: ClassVar[bool] = False

    def __init__(self, keys: Any, context: Context) -> None:
        self.keys, self.context = keys, context

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Questions, passages and faults, in the file's order, without holding more than a part of the file.

        Raises:
            InputError: the file as a whole can't be read: missing, damaged, of another form.
        """

    @abstractmethod
    def provenance(self) -> dict[str, Any]:
        """The source's entry in the manifest: reader, path, sha256, bytes, upstream, licence, and its own keys."""
