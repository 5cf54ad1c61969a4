"""GAIA: questions for assistants, of three levels, with answers that its own scorer compares.

The set is gated; its test part has no answers ("?"). A question with an attached file needs more than searching: it is
left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.qa.reading import RowError, fields
from tasks.qa.records import Question
from tasks.qa.sources.files import QuestionSource


class Source(QuestionSource):
    """Rows `{task_id, Question, Level, "Final answer", file_name?, "Annotator Metadata"?}`; the last is not read.

    A question's type is its level, `level-1` to `level-3`. No passages are known, so its hops are 1.
    """

    reader = "gaia"
    licence = "gated; see its page"
    upstream = (
        'Mialon et al., "GAIA: a benchmark for General AI Assistants" (2023), '
        "https://huggingface.co/datasets/gaia-benchmark/GAIA"
    )
    required = ("task_id", "Question", "Level", "Final answer")
    optional = ("file_name",)

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question]:
        file = row.get("file_name")
        if not fields.absent(file) and fields.plain(file, "file_name").strip():
            raise RowError("attached_file", f"file_name: {file} would have to be read, which the agent can't do")
        level = fields.label(fields.required(row, "Level"), "Level")
        if level not in ("1", "2", "3"):
            raise RowError("wrong_level", f"Level: must be 1, 2 or 3, got {str(row['Level'])[:20]!r}")
        return (
            Question(
                id=fields.identity(fields.required(row, "task_id"), "task_id"),
                data_source=self.keys.name,
                question=fields.question(fields.required(row, "Question"), "Question"),
                golden_answers=fields.answers([fields.required(row, "Final answer")], "Final answer"),
                hops=1,
                supporting_titles=(),
                gold_passage_ids=(),
                origin=origin,
                split=self.keys.split,
                type=f"level-{level}",
                scorer="gaia",
            ),
        )
