"""Question sets whose rows bring the paragraphs that they are asked over."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from tasks.qa.corpus import one_space
from tasks.qa.reading import RowError, fields
from tasks.qa.records import Passage, Question
from tasks.qa.sources.base import Context
from tasks.qa.sources.files import QuestionSource


def paragraph(title: str, text: str) -> Passage:
    """A paragraph as a passage; its id is made of its content, so that it is one passage in several questions."""
    text = one_space(text)
    return Passage(hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16], title, text)


class ParagraphSource(QuestionSource):
    """Questions with paragraphs: these are the passages, unless there is a corpus to look the gold passages up in."""

    looks_up_passages = True

    def __init__(self, keys: Any, context: Context) -> None:
        super().__init__(keys, context)
        self._brought: set[str] = set()

    def brought(self, passages: Iterable[Passage]) -> list[Passage]:
        """Those that no earlier row brought; none where there is a corpus."""
        if self.context.corpus is not None:
            return []
        new = {passage.id: passage for passage in passages if passage.id not in self._brought}
        self._brought.update(new)
        return list(new.values())

    def gold(self, title: str, text: str) -> Passage:
        """The gold passage that is a paragraph: itself, or the corpus's passage that holds it."""
        corpus = self.context.corpus
        if corpus is None:
            return paragraph(title, text)
        found = corpus.paragraph(title, text)
        if found is None:
            raise no_gold(title)
        return found

    def asked(
        self,
        identity: str,
        question: str,
        answers: Iterable[str],
        hops: int,
        gold: Sequence[Passage],
        origin: str,
        kind: str | None = None,
    ) -> Question:
        """A question over gold passages."""
        return Question(
            id=identity,
            data_source=self.keys.name,
            question=question,
            golden_answers=tuple(dict.fromkeys(answers)),
            hops=hops,
            supporting_titles=tuple(dict.fromkeys(passage.title for passage in gold if passage.title)),
            gold_passage_ids=tuple(dict.fromkeys(passage.id for passage in gold)),
            origin=origin,
            split=self.keys.split,
            type=kind,
        )


def no_gold(title: str) -> RowError:
    """A question whose gold passage can't be named."""
    return RowError("no_gold_passage", f"no passage for its supporting title {title!r}")


def row_id(row: dict[str, Any], keys: Sequence[str] = ("_id", "id")) -> str:
    """The id of a row, under the first of these keys that it has."""
    key = next((key for key in keys if key in row), keys[-1])
    return fields.identity(fields.required(row, key), key)
