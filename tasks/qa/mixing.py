"""From what the sources bring to the three splits: checked, without duplicates, split and shuffled."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tasks.agent.rewards import normalise
from tasks.errors import InputError
from tasks.qa.records import SPLITS, Passage, Question, Split


@dataclass(frozen=True)
class Source:
    """Questions of one source by split; it is given a validation split where it brings none."""

    name: str
    questions: Mapping[Split, Sequence[Question]]


def merge_passages(parts: Iterable[Sequence[Passage]]) -> list[Passage]:
    """All passages once, in order.

    Raises:
        InputError: two passages share an id and differ.
    """
    merged: dict[str, Passage] = {}
    for part in parts:
        for passage in part:
            if merged.setdefault(passage.id, passage) != passage:
                raise InputError(f"two sources bring different passages with the id {passage.id!r}")
    return list(merged.values())


def check_questions(questions: Iterable[Question], passage_ids: Collection[str]) -> None:
    """Refuse questions whose id comes twice or whose gold passages do not exist.

    Raises:
        InputError: names the question, the passage and where the question came from.
    """
    seen: dict[str, str] = {}
    for question in questions:
        if question.id in seen:
            raise InputError(
                f"question id {question.id!r} comes twice", where=question.origin, mend=f"first at {seen[question.id]}"
            )
        seen[question.id] = question.origin
        for identity in question.gold_passage_ids:
            if identity not in passage_ids:
                raise InputError(
                    f"question {question.id!r}: its gold passage {identity!r} is not in the corpus",
                    where=question.origin,
                    mend="see ingest.corpus",
                )


def hold_out(questions: Sequence[Question], share: float, rng: random.Random) -> tuple[list[Question], list[Question]]:
    """Draw a share of the questions, rounded to a whole number; returns those left and those drawn, each in order."""
    chosen = set(rng.sample(range(len(questions)), round(share * len(questions))))
    left = [question for number, question in enumerate(questions) if number not in chosen]
    return left, [questions[number] for number in sorted(chosen)]


def mix(
    sources: Sequence[Source], *, validation_share: float, shuffle: bool, seed: int
) -> tuple[dict[Split, list[Question]], dict[str, int]]:
    """Mix sources into splits without a question twice, compared as SQuAD's evaluation normalises text.

    Of equal questions the first is kept. Test questions win over validation questions, and both over training
    questions: what occurs in a split that measures is dropped from the one that learns.

    Args:
        sources: questions by split; names are unique.
        validation_share: of the training questions, for sources without validation questions.
        shuffle: whether each split is shuffled; otherwise the sources follow one another.
        seed: of the draw and of the order.

    Returns:
        the splits, and the number of dropped questions by reason.
    """
    dropped = {"duplicate": 0, "train_in_held_out": 0, "validation_in_test": 0}
    kept: dict[Split, dict[str, list[Question]]] = {}
    held_out: set[str] = set()
    for split in reversed(SPLITS):
        seen: set[str] = set()
        kept[split] = {source.name: [] for source in sources}
        for source in sources:
            for question in source.questions.get(split, ()):
                key = normalise(question.question)
                if key in held_out:
                    dropped["train_in_held_out" if split == "train" else "validation_in_test"] += 1
                elif key in seen:
                    dropped["duplicate"] += 1
                else:
                    seen.add(key)
                    kept[split][source.name].append(question)
        held_out |= seen
    for source in sources:
        if not source.questions.get("validation"):
            rng = random.Random(f"{seed}:validation:{source.name}")
            train, drawn = hold_out(kept["train"][source.name], validation_share, rng)
            kept["train"][source.name], kept["validation"][source.name] = train, drawn
    splits: dict[Split, list[Question]] = {}
    for split in SPLITS:
        splits[split] = [question for part in kept[split].values() for question in part]
        if shuffle:
            random.Random(f"{seed}:shuffle:{split}").shuffle(splits[split])
    return splits, dropped
