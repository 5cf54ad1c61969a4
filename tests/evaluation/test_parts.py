import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tasks.agent.trajectory import Segment, Trajectory
from tasks.evaluation import parts

DOCS = Path(__file__).parents[2] / "docs" / "rollouts.md"


def trajectory(name: str, **more) -> Trajectory:
    made = Trajectory(
        name, "search", "made", "Q?", ["a", "b"], 1, [1], [Segment("generated", "so", [1, 2], [-0.5, -1.0])]
    )
    for key, value in more.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def questions(question_row):
    return [
        question_row("Q?", ["a"], ["T"], ["p", "r"], id="q0", type="bridge"),
        question_row("R?", ["a"], [], [], id="q1"),
    ]


def test_what_was_played_comes_back_in_order(tmp_path, questions) -> None:
    played = [trajectory("q0"), trajectory("q0", answer="a"), trajectory("q1"), trajectory("q1", citation_recall=0.5)]
    parts.write(tmp_path / "a" / "1.parquet", played, questions, model="rl", seconds=1.5)
    parts.write(tmp_path / "a" / "2.parquet", played[:1], questions[:1], model="sft", seconds=2.0)
    table, seconds = parts.read(tmp_path / "a" / f"{number}.parquet" for number in (1, 2))
    frame = table.to_pandas()
    assert seconds == 3.5
    assert list(frame["model"]) == ["rl"] * 4 + ["sft"]
    assert list(frame["question_id"]) == ["q0", "q0", "q1", "q1", "q0"] and list(frame["sample"]) == [0, 1, 0, 1, 0]
    assert list(frame["answer"].fillna("none")) == ["none", "a", "none", "none", "none"]
    assert list(frame["type"].fillna("none"))[1:3] == ["bridge", "none"]
    assert list(frame["gold_passage_ids"][0]) == ["p", "r"] and not len(frame["gold_passage_ids"][2])
    assert list(frame["response_logprobs"][0]) == [-0.5, -1.0]
    # Nothing unfinished is left, and the whole can be written and read as one file.
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["1.parquet", "2.parquet"]
    pq.write_table(table, tmp_path / "all.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "all.parquet"), frame)


def test_half_of_a_surrogate_pair_is_replaced(tmp_path, questions) -> None:
    broken = trajectory("q0", answer="\ud83d!", queries=["ok", "\udc00"])
    parts.write(tmp_path / "1.parquet", [broken], questions[:1], model="rl", seconds=0.0)
    row = parts.read([tmp_path / "1.parquet"])[0].to_pylist()[0]
    assert row["answer"] == "\ufffd!" and row["queries"] == ["ok", "\ufffd"]


def test_every_column_is_documented() -> None:
    assert set(parts.SCHEMA.names) <= set(re.findall(r"`(\w+)`", DOCS.read_text(encoding="utf-8")))
