"""A question, a passage and a fault, as every source gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that can be found by searching; `url` is None where the corpus names none."""

    id: str
    title: str
    text: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answers.

    Attributes:
        id: unique over all sources and splits.
        data_source: what it is reported under.
        golden_answers: at least one.
        hops: passages that have to be read one after another, at least 1.
        supporting_titles: titles of these passages, in the order in which they are needed where that is known.
        gold_passage_ids: their ids in the corpus, in the same order; empty where the source names none.
        origin: file and line, or whatever else tells a person where the question came from.
        split: where its source puts it.
        type: what kind of question its source says it is (`bridge`, `level-2` ...); None where it says none.
        scorer: what judges an answer to it: a name of `tasks.agent.rewards.SCORERS`.
    """

    id: str
    data_source: str
    question: str
    golden_answers: tuple[str, ...]
    hops: int
    supporting_titles: tuple[str, ...]
    gold_passage_ids: tuple[str, ...]
    origin: str
    split: Split = "train"
    type: str | None = None
    scorer: str = "squad"


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that is no question or passage.

    Attributes:
        origin: file and line or row.
        reason: the kind of fault, as it is counted: `not_json`, `missing_key`, `no_answer` ...
        message: key and what is wrong with it.
    """

    origin: str
    reason: str
    message: str


Item = Question | Passage | Fault
