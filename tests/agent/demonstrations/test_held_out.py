from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.agent.demonstrations.held_out import Asked, HeldOut
from tasks.qa.near import Texts

RIVER = "Which river flows through the old capital of the northern province?"


def test_questions_are_found_in_their_closest_form_with_file_and_row(tmp_path: Path, question_row) -> None:
    files = {
        "validation": [("Who is Bo?", "x"), (RIVER.replace("flows", "runs"), "Oka")],
        "test": [("Who is Al?", "x"), ("Who is Cy?", "x"), (RIVER, "Oka")],
    }
    for name, asked in files.items():
        rows = [question_row(question, [answer], ["t"], ["7"]) for question, answer in asked]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    held_out = HeldOut.read([tmp_path / f"{name}.parquet" for name in files])
    asked = [RIVER, RIVER.upper(), RIVER.replace("flows", "passes"), RIVER.replace("northern", "southern"), "who is al"]
    found = held_out.asked(Texts(asked, [["Oka"], ["oka"], ["Oka"], ["Dee"], ["y"]], [["7"]] * 5))
    assert found == {
        0: Asked("same", f"{tmp_path}/test.parquet, row 2"),
        1: Asked("normalised", f"{tmp_path}/test.parquet, row 2"),
        2: Asked("near", f"{tmp_path}/validation.parquet, row 1"),
        4: Asked("normalised", f"{tmp_path}/test.parquet, row 0"),
    }
    # Other gold passages: another question.
    assert held_out.asked(Texts(asked[2:3], [["Oka"]], [["8"]])) == {}
