from pathlib import Path

import pandas as pd

from tasks.training.rl_rows import write_validation_rows


def test_validation_rows_are_the_first_ones_numbered_anew(tmp_path: Path, question_row) -> None:
    made = [question_row(f"Q{n}?", ["a"], ["t"], ["p"], id=f"q{n}") for n in range(5)]
    for row in made:
        del row["extra_info"]["tools_kwargs"]
    rows = tmp_path / "rows.parquet"
    pd.DataFrame(made).to_parquet(rows)
    assert write_validation_rows(rows, tmp_path / "v.parquet", 3) == 3
    infos = pd.read_parquet(tmp_path / "v.parquet")["extra_info"]
    assert [(info["id"], info["index"], info["split"]) for info in infos] == [
        ("q0", 0, "validation"),
        ("q1", 1, "validation"),
        ("q2", 2, "validation"),
    ]
    assert list(infos[0]["golden_answers"]) == ["a"]
    assert write_validation_rows(rows, tmp_path / "v.parquet", 99) == 5
