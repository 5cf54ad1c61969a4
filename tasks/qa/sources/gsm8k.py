"""GSM8K: grade-school maths. The answer is the number behind `####`; the solution before it is left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.qa.reading import RowError, fields
from tasks.qa.records import Question
from tasks.qa.sources.files import QuestionSource

_MARK = "####"


class Source(QuestionSource):
    """Rows `{question, answer}`."""

    reader = "gsm8k"
    licence = "MIT"
    upstream = 'Cobbe et al., "Training Verifiers to Solve Math Word Problems" (2021), https://github.com/openai/grade-school-math'
    required = ("question", "answer")

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question]:
        question = fields.question(fields.required(row, "question"), "question")
        solution = fields.text(fields.required(row, "answer"), "answer", "no_answer")
        if _MARK not in solution:
            raise RowError("no_answer", f"answer: holds no {_MARK} before a final answer")
        final = solution.rpartition(_MARK)[2].replace(",", "")
        answers = fields.answers([final], f"answer, behind {_MARK}")
        return (Question(self.made_id(number), self.keys.name, question, answers, 1, (), (), origin, self.keys.split),)
