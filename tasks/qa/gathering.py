"""All sources of a run, read one after the other: questions into a spool, passages into the corpus, faults counted."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.errors import InputError
from tasks.params import Ingest
from tasks.qa.corpus import Corpus
from tasks.qa.records import Fault, Passage, Question
from tasks.qa.rows import CorpusWriter
from tasks.qa.sources import registry, source_keys
from tasks.qa.sources.base import Context, Source
from tasks.qa.table import Spool

PROGRESS_SECONDS = 5
# Rows that are whole, but of no use here: of the field's own sets, too, some are.
USELESS = ("unanswerable", "unmatchable_answer", "attached_file")


@dataclass(frozen=True)
class Gathered:
    """What the sources brought.

    Attributes:
        table: questions, columns as in `tasks.qa.table.SCHEMA`, in the order of the sources.
        passage_ids: of every passage.
        faults: faulty rows by reason.
        manifest: every source and the corpus: where it comes from, its hash, licence and counts.
    """

    table: pa.Table
    passage_ids: pa.Array
    faults: Counter[str]
    manifest: dict[str, Any]


def gather(settings: Ingest, seed: int, spool_path: Path, corpus_path: Path, say: Callable[[str], None]) -> Gathered:
    """Read every source.

    Args:
        settings: the parameters' section `ingest`.
        seed: of what is generated.
        spool_path: takes the questions.
        corpus_path: takes the passages.
        say: takes lines of progress.

    Raises:
        InputError: a file can't be read, or more of a source's rows are faulty than `max_faulty` allows.
    """
    folder = Path(settings.data_dir)
    spool, passages = Spool(spool_path), CorpusWriter(corpus_path)
    manifest: dict[str, Any] = {"data_dir": settings.data_dir, "corpus": None, "sources": []}
    faults: Counter[str] = Counter()
    corpus = None
    if settings.corpus is not None:
        entry = settings.corpus
        keys = {"reader": "passages", "path": entry} if isinstance(entry, str) else entry.model_dump()
        source = _open(keys, "ingest.corpus", Context(folder, seed, None, passages))
        # A corpus of millions is held in memory only for sources that look passages up.
        looked_up = any(registry()[one.reader].looks_up_passages for one in settings.sources)
        read: list[Passage] | None = [] if looked_up else None
        manifest["corpus"] = _read(source, "ingest.corpus", settings, spool, passages, faults, say, keep=read)
        corpus = None if read is None else Corpus(read)
    for number, wanted in enumerate(settings.sources):
        place = f"ingest.sources.{number}"
        source = _open(wanted.model_dump(), place, Context(folder, seed, corpus))
        manifest["sources"].append(_read(source, place, settings, spool, passages, faults, say))
    return Gathered(spool.table(), passages.close(), faults, manifest)


def _open(entry: dict[str, Any], place: str, context: Context) -> Source:
    keys = source_keys(entry, place)
    return registry()[keys.reader](keys, context)


def _read(
    source: Source,
    place: str,
    settings: Ingest,
    spool: Spool,
    passages: CorpusWriter,
    faults: Counter[str],
    say: Callable[[str], None],
    keep: list[Passage] | None = None,
) -> dict[str, Any]:
    """Read one source to its end; returns its entry in the manifest."""
    name = getattr(source.keys, "name", source.reader)
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    first: Fault | None = None
    said = time.monotonic()
    for item in source.items():
        if isinstance(item, Question):
            spool.add(name, item)
            counts["questions"] += 1
        elif isinstance(item, Passage):
            passages.add(item, place)
            counts["passages"] += 1
            if keep is not None:
                keep.append(item)
        else:
            if first is None or (first.reason in USELESS and item.reason not in USELESS):
                first = item
            reasons[item.reason] += 1
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            say(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    # The passages that a question brings with it are no rows of their own.
    rows = (counts["questions"] or counts["passages"]) + reasons.total()
    if not rows:
        path = getattr(source.keys, "path", "")
        raise InputError("the source holds no rows", where=f"{place} {path}".strip(), mend="leave it out")
    told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    faulty = reasons.total() - sum(reasons[reason] for reason in USELESS)
    if first is not None and faulty > settings.max_faulty * rows:
        share = (
            f"mend the row, or let a share of the rows go: ingest.max_faulty, {_rounded_up(faulty / rows):g} or more"
        )
        raise InputError(
            first.message + (f" (of {rows:,} rows: {told})" if reasons.total() > 1 else ""),
            where=first.origin,
            mend=share if faulty < rows else "no row can be used: see whether reader and columns are the right ones",
        )
    faults.update(reasons)
    where = f"; dropped: {told}, first: {first.origin}: {first.message}" if first is not None else ""
    say(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()) + where)
    return {**source.provenance(), **counts, "dropped": dict(sorted(reasons.items()))}


def _rounded_up(share: float) -> float:
    """Four digits behind the point, and never below the share: what is advised must be enough."""
    return math.ceil(share * 10_000) / 10_000
