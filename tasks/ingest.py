"""Stage `ingest`: questions and passages, read or generated, without duplicates, split, mixed and ordered.

Decided, and why: every source ends in the same two forms, verl's rows and a corpus, so nothing further down
knows where a question came from but by its `data_source`. A question that also occurs in a split that
measures, word for word or nearly so, is dropped from the one that learns. Whatever is dropped is counted by
reason, and too much of it is refused. Questions are spooled to disk, so a set of millions needs no more memory than
a small one. Equal parameters and files give equal bytes. The manifest names every file that was read with its
hash, its upstream and its licence.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.agent import environments, prompts
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError
from tasks.files import write_json
from tasks.params import Ingest
from tasks.qa import gathering, mixing, rows, splitting
from tasks.qa.records import SPLITS

_SPOOL = "questions.arrow"
# By the user; by the makers of SQuAD 2.0 and MuSiQue; since nobody answers them by searching.
_ON_PURPOSE = ("mixture", "unanswerable", "attached_file")


def run(stage: Stage) -> Figures:
    """Write `{train,validation,test}.parquet`, `corpus.parquet` and `manifest.json`."""
    settings: Ingest = stage.params.ingest
    spool = stage.out / _SPOOL
    gathered = gathering.gather(settings, stage.params.seed, spool, stage.out / "corpus.parquet", stage.say)
    table = gathered.table
    mixing.check(table, gathered.passage_ids)
    mixed = mixing.mix(table, settings, stage.params.seed)
    if settings.separate == "passage" and (alone := splitting.unnamed(table)):
        stage.say(f"{alone:,} of {table.num_rows:,} questions name no gold passage or title: split by question alone")
    told = ", ".join(f"{count:,} {reason}" for reason, count in sorted(mixed.dropped.items())) or "none"
    stage.say(f"mixed; dropped: {told}")
    _refuse_losses(mixed.dropped, gathered, settings.max_dropped)
    for split in ("train", "test", "validation"):
        if not len(mixed.splits[split]):
            share = "" if split == "train" else f", or raise ingest.{split}_share"
            raise InputError(
                f"there is no {split} question", where="ingest.sources", mend=f"name a source that brings some{share}"
            )
    environment = environments.create(stage.params.environment)
    template = prompts.of_params(stage.params.episode, stage.params.tools)
    rows.write_splits(stage.out, table, mixed.splits, environment, template)
    if environment.needs_retrieval and not len(gathered.passage_ids):
        stage.say(f"warning: environment {environment.name} searches, and there are no passages; name ingest.corpus")
    _log_sources(stage, gathered.manifest)
    write_json(stage.out / "manifest.json", gathered.manifest)
    stage.track.log_artifact(stage.out / "manifest.json")
    stage.say(", ".join(f"{split} {len(mixed.splits[split]):,}" for split in SPLITS))
    spool.unlink()
    return {
        "rows": {split: _counts(table, "data_source", mixed.splits[split]) for split in SPLITS},
        "hops": {split: _counts(table, "hops", mixed.splits[split]) for split in SPLITS},
        "dropped": {**gathered.faults, **mixed.dropped},
        "passages": len(gathered.passage_ids),
    }


def _refuse_losses(dropped: Counter[str], gathered: gathering.Gathered, most: float) -> None:
    """Refuse when more rows are dropped than allowed, but for those that are left out on purpose."""
    read = gathered.table.num_rows + gathered.faults.total()
    lost = gathered.faults + dropped
    for reason in _ON_PURPOSE:
        del lost[reason]
    if lost.total() > most * read:
        told = ", ".join(f"{count:,} {reason}" for reason, count in lost.most_common())
        raise InputError(
            f"{lost.total():,} of {read:,} rows are dropped: {told}",
            where="ingest.sources",
            mend=f"clean the sources, or raise ingest.max_dropped ({most:g})",
        )


def _log_sources(stage: Stage, manifest: dict[str, Any]) -> None:
    """Name every file that was read as a data set of the run, with its hash as digest."""
    if manifest["corpus"] is not None:
        stage.track.log_data(manifest["corpus"]["path"], "corpus", "corpus", manifest["corpus"]["sha256"])
    for entry in manifest["sources"]:
        if "sha256" in entry:
            stage.track.log_data(entry["path"], f"{entry['name']}/{entry['split']}", entry["split"], entry["sha256"])


def _counts(table: pa.Table, column: str, numbers: np.ndarray) -> dict[str, int]:
    counted = table[column].take(pa.array(numbers)).value_counts().to_pylist()
    return {str(one["values"]): one["counts"] for one in sorted(counted, key=lambda one: one["values"])}


if __name__ == "__main__":
    main("ingest", run)
