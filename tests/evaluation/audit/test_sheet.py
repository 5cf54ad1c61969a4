import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.audit import sheet
from tasks.evaluation.audit.flags import FLAGS


@pytest.fixture
def drawn(trajectories) -> sheet.Sheet:
    return sheet.draw(trajectories({"sft": 1.0, "rl": 0.5}), model="rl", count=30, seed=0)


def test_the_highest_rewards_come_first_and_only_the_models_own(drawn: sheet.Sheet, trajectories) -> None:
    frame = trajectories({"sft": 1.0, "rl": 0.5})
    best = sorted(frame[frame["model"] == "rl"]["reward"], reverse=True)[:30]
    assert list(drawn.frame["reward"]) == best and set(drawn.frame["model"]) == {"rl"}


def test_equal_rewards_are_ordered_by_the_seed_whatever_the_order_of_the_rows(trajectories) -> None:
    frame = trajectories({"rl": 1.0})
    ids = [list(sheet.draw(frame, model="rl", count=10, seed=seed).frame["question_id"]) for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2] and ids[0] != sorted(ids[0])
    again = sheet.draw(frame.iloc[::-1], model="rl", count=10, seed=0)
    assert list(again.frame["question_id"]) == ids[0]


def test_fewer_trajectories_than_asked_for_are_all_taken(trajectories) -> None:
    assert sheet.draw(trajectories({"rl": 1.0}, questions=7), model="rl", count=100, seed=0).figures()["n"] == 7


def test_the_name_is_that_of_what_is_judged(drawn: sheet.Sheet, trajectories) -> None:
    frame = trajectories({"sft": 1.0, "rl": 0.5})
    assert drawn.name == sheet.draw(frame, model="rl", count=30, seed=0).name
    assert drawn.name.startswith("sheet-") and len(drawn.name) == len("sheet-") + 12
    other = frame.assign(segments=frame["segments"].str.replace("hm", "oh"))
    assert drawn.name != sheet.draw(other, model="rl", count=30, seed=0).name
    assert drawn.name != sheet.draw(frame, model="rl", count=29, seed=0).name


def test_figures_count_every_flag(drawn: sheet.Sheet, trajectories) -> None:
    assert drawn.figures()["flags"].keys() == FLAGS.keys()
    frame = trajectories({"rl": 1.0}, questions=10)
    frame.loc[:3, "searches"] = 0
    frame.loc[3:4, "copied_example"] = True
    found = sheet.draw(frame, model="rl", count=10, seed=0).figures()
    assert (found["n"], found["flagged"]) == (10, 5)
    assert {name: n for name, n in found["flags"].items() if n} == {"no_search": 4, "example_answer": 2}


def test_the_table_is_read_back_as_it_was(tmp_path: Path, trajectories) -> None:
    frame = trajectories({"rl": 1.0}, questions=3)
    frame["question"] = ['Who said "hi", and\nwhen?', "=1+1", "naïve 東京"]
    drawn = sheet.draw(frame, model="rl", count=3, seed=0)
    drawn.write(tmp_path / "audit.csv")
    raw = (tmp_path / "audit.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbfsheet,row,question_id,") and raw.endswith(b",,,\r\n")
    rows = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))
    assert [row["row"] for row in rows] == ["1", "2", "3"] and {row["sheet"] for row in rows} == {drawn.name}
    assert {row["question"] for row in rows} == {'Who said "hi", and\nwhen?', "'=1+1", "naïve 東京"}
    assert {row["golden"] for row in rows} == {"Town | the town"} and {row["reward"] for row in rows} == {"1"}
    assert {row["verdict"] + row["note"] for row in rows} == {""}
    assert [path.name for path in tmp_path.iterdir()] == ["audit.csv"]


def test_an_episode_without_an_answer_has_an_empty_cell(trajectories) -> None:
    frame = trajectories({"rl": 1.0}, questions=1).assign(answer=None)
    row = dict(zip(sheet.COLUMNS, sheet.draw(frame, model="rl", count=1, seed=0).rows()[0], strict=True))
    assert row["answer"] == ""


@given(st.text())
def test_no_text_is_a_formula_and_none_is_lost(text: str) -> None:
    cell = sheet.plain_cell(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert cell in (text, f"'{text}")


def test_a_text_ends_where_a_spreadsheets_cell_would() -> None:
    assert sheet.plain_cell("a" * sheet.CELL) == "a" * sheet.CELL
    cell = sheet.plain_cell("=" + "a" * 200_000)
    assert cell == "'=" + "a" * (sheet.CELL - 1) + "…" and len(cell) <= 32_767
