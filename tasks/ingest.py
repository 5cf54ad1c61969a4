"""Stage `ingest`: questions and passages, read or generated, mixed, split and shuffled.

Decided, and why: every source ends in the same two forms, verl's rows and a corpus, so nothing further down
knows where a question came from but by its `data_source`. A question that also occurs in a split that
measures is dropped from the one that learns, and what was dropped is counted. Equal parameters and files give
equal bytes. The manifest names every file that was read with its hash, and its licence where it was given.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tasks.agent import environments
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError
from tasks.files import write_json
from tasks.params import FileSource, Ingest
from tasks.qa import mixing, readers, rows, world
from tasks.qa.records import SPLITS, Passage, Question, Split


def run(stage: Stage) -> Figures:
    """Write `{train,validation,test}.parquet`, `corpus.parquet` and `manifest.json`."""
    settings: Ingest = stage.params.ingest
    sources, passages, manifest = _read(settings, stage.params.seed)
    stage.say(f"sources: {len(manifest['sources'])}, passages: {len(passages)}")
    mixing.check_questions(
        (question for source in sources for part in source.questions.values() for question in part),
        {passage.id for passage in passages},
    )
    splits, dropped = mixing.mix(
        sources, validation_share=settings.validation_share, shuffle=settings.shuffle, seed=stage.params.seed
    )
    for split in ("train", "test", "validation"):
        if not splits[split]:
            raise InputError(
                f"there is no {split} question",
                where="ingest.sources",
                mend="name a source that brings some, or raise ingest.validation_share",
            )
    environment = environments.create(stage.params.environment)
    counts = rows.write_splits(stage.out, splits, environment, stage.params.episode.prompt)
    rows.write_corpus(stage.out / "corpus.parquet", passages)
    write_json(stage.out / "manifest.json", manifest)
    stage.track.log_artifact(stage.out / "manifest.json")
    stage.say(", ".join(f"{split} {count}" for split, count in counts.items()))
    return {
        "rows": {split: _by_source(splits[split]) for split in SPLITS},
        "dropped": dropped,
        "passages": len(passages),
    }


def _by_source(questions: list[Question]) -> dict[str, int]:
    return dict(sorted(Counter(question.data_source for question in questions).items()))


def _read(settings: Ingest, seed: int) -> tuple[list[mixing.Source], list[Passage], dict[str, Any]]:
    """All sources, joined by name; all passages; the manifest."""
    folder = Path(settings.data_dir)
    manifest: dict[str, Any] = {"sources": [], "corpus": None}
    corpus = None
    if settings.corpus is not None:
        corpus = readers.Corpus(readers.read_corpus(folder / settings.corpus))
        manifest["corpus"] = {
            "path": settings.corpus,
            "sha256": readers.sha256(folder / settings.corpus),
            "rows": len(corpus.passages),
            "licence": "unknown",
        }
    parts: list[list[Passage]] = [corpus.passages] if corpus else []
    joined: dict[str, dict[Split, list[Question]]] = {}
    for source in settings.sources:
        if isinstance(source, FileSource):
            loaded = readers.READERS[source.reader](source, folder / source.path, corpus)
            parts.append(loaded.passages)
            joined.setdefault(source.name, {}).setdefault(source.split, []).extend(loaded.questions)
            entry = {
                "name": source.name,
                "split": source.split,
                "path": source.path,
                "sha256": readers.sha256(folder / source.path),
                "rows": len(loaded.questions),
                "licence": source.licence,
            }
        else:
            made = world.generate(seed, source.people.by_split(), source.questions.by_split(), source.kinds)
            parts.append(made.passages)
            for split, questions in made.questions.items():
                joined.setdefault("world", {}).setdefault(split, []).extend(questions)
            entry = {"rows": sum(map(len, made.questions.values())), "licence": "generated"}
        manifest["sources"].append({"reader": source.reader, **entry})
    sources = [mixing.Source(name, questions) for name, questions in joined.items()]
    return sources, mixing.merge_passages(parts), manifest


if __name__ == "__main__":
    main("ingest", run)
