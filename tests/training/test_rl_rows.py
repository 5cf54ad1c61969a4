from pathlib import Path

import pandas as pd

from tasks.training.rl_rows import write_validation_rows


def test_validation_rows_are_the_first_ones_numbered_anew(five_rows: Path, tmp_path: Path) -> None:
    assert write_validation_rows(five_rows, tmp_path / "v.parquet", 3) == 3
    infos = pd.read_parquet(tmp_path / "v.parquet")["extra_info"]
    assert [(info["id"], info["index"], info["split"]) for info in infos] == [
        ("q0", 0, "validation"),
        ("q1", 1, "validation"),
        ("q2", 2, "validation"),
    ]
    assert list(infos[0]["golden_answers"]) == ["a"]
    assert write_validation_rows(five_rows, tmp_path / "v.parquet", 99) == 5
