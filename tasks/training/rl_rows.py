"""The validation rows that RL plays: the first ones."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write_validation_rows(source: Path, target: Path, count: int) -> int:
    """The first `count` validation rows, numbered anew: the sanity check takes the first of them."""
    rows = pd.read_parquet(source).head(count)
    infos = [{**info, "index": index, "split": "validation"} for index, info in enumerate(rows["extra_info"])]
    rows.assign(extra_info=infos).to_parquet(target, index=False)
    return len(rows)
