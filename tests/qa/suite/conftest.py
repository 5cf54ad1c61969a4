from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.qa.suite.catalogue import severities

TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("environment", pa.string()),
        ("agent_name", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.struct([("target", TEXTS)]))])),
        (
            "extra_info",
            pa.struct(
                [
                    ("index", pa.int64()),
                    ("split", pa.string()),
                    ("id", pa.string()),
                    ("question", pa.string()),
                    ("golden_answers", TEXTS),
                    ("hops", pa.int64()),
                    ("supporting_titles", TEXTS),
                    ("gold_passage_ids", TEXTS),
                    ("tools_kwargs", pa.null()),
                ]
            ),
        ),
    ]
)


@pytest.fixture(scope="session")
def schema() -> pa.Schema:
    """The columns of the data contract."""
    return SCHEMA


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows of the data contract; by hand, so that nothing of ingest decides these tests."""

    def write(name: str, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Path:
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        return path

    return write


SPLITS = {"train": 40, "validation": 5, "test": 5}


def ask(question_row, split, number):
    source = "odd" if number % 2 else "even"
    row = question_row(
        f"In {split}, who has number {number} of {split}?", ["x"], ["t"], [f"{split}-{number}"], id=f"{split}-{number}"
    )
    return {**row, "data_source": source}


@pytest.fixture
def splits(question_row):
    return {split: [ask(question_row, split, number) for number in range(count)] for split, count in SPLITS.items()}


@pytest.fixture
def run(write_rows, write_corpus, tmp_path):
    """Checks tables of rows; the corpus holds the passages of the unchanged ones."""

    def checked(of_splits, severity=None, schema=None, **more):
        more_rows = {} if schema is None else {"schema": schema}
        tables = {name: write_rows(name, rows, **more_rows) for name, rows in of_splits.items()}
        passages = [(f"{split}-{number}", "t", "x") for split, count in SPLITS.items() for number in range(count)]
        corpus = write_corpus(tmp_path / "corpus.parquet", [(*one, None) for one in passages])
        settings = {
            "stage": True,
            "severities": severities(severity or {}),
            "false_alarm": 1e-4,
            "min_rows": 10,
            "say": lambda line: None,
            "measure": lambda prompts: [len(prompt[-1]["content"].split()) for prompt in prompts],
            "max_prompt_tokens": 30,
            "corpus": corpus,
        }
        # Great Expectations takes seconds to be imported.
        from tasks.qa.suite.checking import Settings, check

        return check(tables, Settings(**{**settings, **more}), tmp_path)

    return checked
