"""Questions of the user's own whose columns, or keys, are named in the parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.qa.reading import fields
from tasks.qa.records import Question
from tasks.qa.sources.base import Context
from tasks.qa.sources.files import QuestionKeys, QuestionSource
from tasks.sections import Section


class Columns(Section):
    """The column in which each part of a question is; null where there is none.

    A column that is named here must be there; one that isn't named is read where it is there. Without a column
    for ids, an id is made of the source's name, the split and the number of the row.
    """

    id: str | None = "id"
    question: str = "question"
    golden_answers: str = "golden_answers"
    data_source: str | None = "data_source"
    hops: str | None = "hops"
    supporting_titles: str | None = "supporting_titles"
    gold_passage_ids: str | None = "gold_passage_ids"
    type: str | None = "type"


class MappedKeys(QuestionKeys):
    """Keys of a question set with columns of its own."""

    columns: Columns = Columns()


_NEEDED = {"id", "question", "golden_answers"}


class MappedSource(QuestionSource):
    """Rows `{id, question, golden_answers[], data_source?, hops?, type?, supporting_titles[]?, gold_passage_ids[]?}`.

    Without `hops` it is the number of gold passages or titles, whichever is larger, and at least 1.

    Attributes:
        lone: whether an answer may be a text instead of a list of texts.
    """

    Keys = MappedKeys
    upstream = "the user's own"
    lone = False

    def __init__(self, keys: Any, context: Context) -> None:
        super().__init__(keys, context)
        named = keys.columns.model_dump()
        needed = _NEEDED | keys.columns.model_fields_set
        columns = [(field, column) for field, column in named.items() if column is not None]
        self.required = tuple(column for field, column in columns if field in needed)
        self.optional = tuple(column for field, column in columns if field not in needed)
        self._names = named

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question]:
        names = self._names
        for column in self.required:
            if column not in row:
                fields.required(row, column)
        titles_at, golds_at, hops_at = names["supporting_titles"], names["gold_passage_ids"], names["hops"]
        titles = self.texts(row.get(titles_at), titles_at)
        golds = self.ids(row.get(golds_at), golds_at)
        hops, source = row.get(hops_at), row.get(names["data_source"])
        identity_at, question_at, answers_at = names["id"], names["question"], names["golden_answers"]
        return (
            Question(
                self.made_id(number) if identity_at is None else fields.identity(row[identity_at], identity_at),
                self.keys.name if source is None else fields.text(source, names["data_source"]),
                fields.question(row[question_at], question_at),
                self.answers(row[answers_at], answers_at),
                max(1, len(golds), len(titles)) if fields.absent(hops) else self.hops(hops, hops_at),
                titles,
                golds,
                origin,
                self.keys.split,
                fields.label(row.get(names["type"]), names["type"]),
            ),
        )

    def mend_missing(self, key: str, names: list[str]) -> str:
        field = next(field for field, column in self._names.items() if column == key)
        other = "null where there is none" if field == "id" else "..."
        return f"{super().mend_missing(key, names)}; or say which it is: columns: {{{field}: {other}}}"

    def answers(self, value: Any, key: str) -> tuple[str, ...]:
        """Golden answers."""
        return fields.answers(value, key, lone=self.lone)

    def texts(self, value: Any, key: str) -> tuple[str, ...]:
        """Titles; none where there is no value."""
        return () if value is None else fields.titles(value, key)

    def ids(self, value: Any, key: str) -> tuple[str, ...]:
        """Ids of passages; none where there is no value."""
        return () if value is None else fields.identities(value, key)

    def hops(self, value: Any, key: str) -> int:
        """Number of hops."""
        return fields.hops(value, key)
