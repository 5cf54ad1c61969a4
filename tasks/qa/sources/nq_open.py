"""NQ-open: questions that people asked a search engine, with short answers and without passages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.qa.reading import fields
from tasks.qa.records import Question
from tasks.qa.sources.files import QuestionSource


class Source(QuestionSource):
    """Rows `{question, answer[]}`."""

    reader = "nq-open"
    licence = "CC BY-SA 3.0"
    upstream = (
        'Lee et al., "Latent Retrieval" (ACL 2019), of Kwiatkowski et al., "Natural Questions" (TACL 2019), '
        "https://github.com/google-research-datasets/natural-questions"
    )
    required = ("question", "answer")

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question]:
        question = fields.question(fields.required(row, "question"), "question")
        answers = fields.answers(fields.required(row, "answer"), "answer")
        return (Question(self.made_id(number), self.keys.name, question, answers, 1, (), (), origin, self.keys.split),)
