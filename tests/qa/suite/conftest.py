from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
