from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.qa.records import Question
from tasks.qa.table import Spool


@pytest.fixture
def spooled(tmp_path: Path) -> Callable[[Iterable[Question]], pa.Table]:
    """Questions as a table; the source of each is its `data_source`."""

    def make(questions: Iterable[Question]) -> pa.Table:
        spool = Spool(tmp_path / "questions.arrow")
        for question in questions:
            spool.add(question.data_source, question)
        return spool.table()

    return make
