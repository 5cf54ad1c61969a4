"""SQuAD: questions over one paragraph. Version 1.1 and 2.0 as published, and the flat columns of the hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar
from urllib.parse import unquote

from tasks.errors import InputError
from tasks.qa.reading import Row, RowError, as_row, fields, json_text, nested
from tasks.qa.reading.json_text import Layout
from tasks.qa.records import Passage, Question
from tasks.qa.sources import paragraphs


class Source(paragraphs.ParagraphSource):
    """`{data[{title, paragraphs[{context, qas[{id, question, answers[{text}], is_impossible?}]}]}]}`.

    The hub has rows `{id, title, context, question, answers{text[]}}`. A question of version 2.0 without an answer is
    unanswerable.
    """

    reader = "squad"
    licence = "CC BY-SA 4.0"
    upstream = 'Rajpurkar et al., "SQuAD" (EMNLP 2016) and "Know What You Don\'t Know" (ACL 2018), https://rajpurkar.github.io/SQuAD-explorer'
    required = ("id", "context", "question", "answers")
    optional = ("title", "is_impossible")
    layouts: ClassVar[tuple[Layout, ...]] = ("object", "array", "lines")

    def json_rows(self) -> Iterator[Row]:
        return self._nested() if json_text.layout(self.path) == "object" else super().json_rows()

    def _nested(self) -> Iterator[Row]:
        """The questions of all articles as flat rows: what is wrong costs the questions inside of it, and no other."""
        number = None
        for number, (_, article) in enumerate(json_text.json_array(self.path, "data.item")):
            outer = f"{self.path}, article {number}", article
            for part in _inside(outer, "paragraphs", "paragraph", "title"):
                yield from _inside(part, "qas", "question", "title", "context")
        if number is None:
            mend = "squad takes an object with a list `data`, or one object a question"
            raise InputError("no articles under the key 'data'", where=str(self.path), mend=mend)

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question | Passage]:
        identity = paragraphs.row_id(row, ["id"])
        question = fields.question(fields.required(row, "question"), "question")
        # Official titles are the last part of an article's address.
        title = unquote(fields.plain(row.get("title") or "", "title")).replace("_", " ")
        context = fields.text(fields.required(row, "context"), "context")
        given = fields.required(row, "answers")
        texts = (
            given.get("text")
            if isinstance(given, dict)
            else [fields.required(one, "text") for _, one in nested.objects(row, "answers")]
        )
        if row.get("is_impossible") or texts == []:
            raise RowError("unanswerable", "answers: the paragraph holds none")
        answers = fields.answers(texts, "answers.text")
        gold = self.gold(title, context)
        own = paragraphs.paragraph(title, context)
        return [*self.brought([own]), self.asked(identity, question, answers, 1, [gold], origin)]


def _inside(outer: Row, key: str, called: str, *passed_on: str) -> Iterator[Row]:
    """The objects of a list in an object, with some of its keys; or what is wrong with the object or the list."""
    origin, content = outer
    if isinstance(content, RowError):
        yield outer
        return
    try:
        listed = fields.items(fields.required(content, key), key)
    except RowError as error:
        yield origin, error
        return
    above = {name: content[name] for name in passed_on if name in content}
    for number, one in enumerate(listed):
        yield as_row(f"{origin}, {called} {number}", {**one, **above} if isinstance(one, dict) else one)
