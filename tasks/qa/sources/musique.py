"""MuSiQue: questions of two to four hops, composed of questions of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.qa.reading import RowError, fields, nested
from tasks.qa.records import Passage, Question
from tasks.qa.sources import paragraphs


class Source(paragraphs.ParagraphSource):
    """Rows `{id, question, answer, answer_aliases[], answerable, paragraphs[], question_decomposition[]}`.

    A paragraph is `{idx, title, paragraph_text, is_supporting}`; a part of the decomposition names its paragraph by
    `paragraph_support_idx`. Both lists may be texts that hold JSON or a literal of Python.
    """

    reader = "musique"
    licence = "CC BY 4.0"
    upstream = 'Trivedi et al., "MuSiQue" (TACL 2022), https://github.com/StonyBrookNLP/musique'
    required = ("id", "question", "answer", "paragraphs", "question_decomposition")
    optional = ("answer_aliases", "answerable")

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question | Passage]:
        identity = paragraphs.row_id(row, ["id"])
        question = fields.question(fields.required(row, "question"), "question")
        if row.get("answerable") is False:
            raise RowError("unanswerable", "answerable: is false")
        answers = fields.listed_answers([fields.required(row, "answer")], "answer")
        aliases = row.get("answer_aliases")
        if aliases:
            answers += fields.listed_answers(aliases, "answer_aliases")
        fields.matchable(answers, "answer")
        texts = {}
        for place, one in nested.objects(row, "paragraphs"):
            title = fields.text(fields.required(one, "title"), f"{place}.title")
            text = fields.text(fields.required(one, "paragraph_text"), f"{place}.paragraph_text")
            texts[fields.whole(fields.required(one, "idx"), f"{place}.idx")] = (title, text)
        gold = []
        for place, part in nested.objects(row, "question_decomposition"):
            key = f"{place}.paragraph_support_idx"
            index = fields.whole(fields.required(part, "paragraph_support_idx"), key)
            if index not in texts:
                raise RowError("no_gold_passage", f"{key}: no paragraph has the idx {index}")
            gold.append(self.gold(*texts[index]))
        if not gold:
            raise RowError("no_gold_passage", "question_decomposition: is empty")
        own = [paragraphs.paragraph(*one) for one in texts.values()]
        return [*self.brought(own), self.asked(identity, question, answers, len(gold), gold, origin)]
