"""The rollout log: what a kill, a resumed run and odd characters make of it."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.trajectory import CallRecord, Segment, Trajectory
from tasks.training.rollouts import SCHEMA, RolloutLog, append

ROOT = Path(__file__).parents[2]


def trajectory(question: str = "q", text: str = "x", **more) -> Trajectory:
    segments = [
        Segment("generated", text, [5, 6], [-0.5, -0.25]),
        Segment("observation", "seen", [7]),
        Segment("generated", "y", [8], [-1.5]),
    ]
    call = CallRecord("search", text, 0.5, "timeout")
    fields = {"segments": segments, "calls": [call], "queries": [text], "passage_ids": [["p"]], "answer": text, **more}
    return Trajectory(question, "search", "made", "Who?", ["a"], 2, [1, 2, 3], **fields)


@pytest.fixture
def log(tmp_path: Path) -> RolloutLog:
    return RolloutLog(tmp_path)


def names(log: RolloutLog) -> list[str]:
    return sorted(path.name for path in log.folder.iterdir())


def test_a_step_becomes_one_file_of_the_trajectory_contract(log: RolloutLog) -> None:
    for question, sample in (("b", 1), ("a", 0), ("b", 0)):
        append(log.folder, trajectory(question), step=3, split="train", sample=sample)
    append(log.folder, trajectory("v"), step=3, split="validation", sample=0)
    append(log.folder, trajectory("later"), step=4, split="train", sample=0)
    log.gather(3)
    gathered, waiting, validation = names(log)
    assert (gathered, validation) == ("train_00003.parquet", "validation_00003.parquet")
    assert waiting.startswith("train_00004.") and waiting.endswith(".jsonl")
    table = pq.read_table(log.folder / "train_00003.parquet")
    assert table.schema.equals(SCHEMA)
    frame = table.to_pandas()
    # In an order that no worker's speed changes.
    assert list(zip(frame["question_id"], frame["sample"], strict=True)) == [("a", 0), ("b", 0), ("b", 1)]
    expected = trajectory("a").record() | {"step": 3, "split": "train", "sample": 0}
    assert set(expected) == set(SCHEMA.names)
    for name, value in expected.items():
        seen = frame[name][0]
        assert (list(seen) if isinstance(seen, np.ndarray) else seen) == value or (value is None and pd.isna(seen)), (
            name
        )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    TEXTS, st.lists(st.floats(-60, 0, width=32), max_size=5), st.sampled_from(["\u2028", "\u0085", "\r\n", "\x0b", ""])
)
def test_what_is_logged_is_read_again_whatever_it_holds(tmp_path_factory, text: str, logprobs: list[float], more: str):
    log = RolloutLog(tmp_path_factory.mktemp("log"))
    text = text + more
    segments = [Segment("generated", text, list(range(len(logprobs))), logprobs)]
    append(log.folder, trajectory(text=text, segments=segments), step=1, split="train", sample=0)
    append(log.folder, trajectory("z"), step=1, split="train", sample=0)
    log.gather(1)
    frame = pd.read_parquet(log.folder / "train_00001.parquet")
    assert len(frame) == 2
    row = frame[frame["question_id"] == "q"].iloc[0]
    assert row["text"] == row["answer"] == row["queries"][0] == text
    assert list(row["response_logprobs"]) == logprobs
    assert json.loads(row["calls"])[0]["arguments"] == text


def test_half_a_surrogate_pair_is_replaced_and_nothing_else(log: RolloutLog) -> None:
    append(log.folder, trajectory(text="a\ud83db\U0001f600é\\ud83d"), step=1, split="train", sample=0)
    log.gather(1)
    row = pd.read_parquet(log.folder / "train_00001.parquet").iloc[0]
    assert row["answer"] == row["queries"][0] == "a\ufffdb\U0001f600é\\ud83d"
    assert json.loads(row["segments"])[0]["text"] == row["answer"]


def test_a_logprob_that_is_no_number_stays_none(log: RolloutLog) -> None:
    segments = [Segment("generated", "x", [5, 6], [math.nan, -1.0])]
    append(log.folder, trajectory(segments=segments), step=1, split="train", sample=0)
    log.gather(1)
    seen = pd.read_parquet(log.folder / "train_00001.parquet")["response_logprobs"][0]
    assert math.isnan(seen[0]) and seen[1] == -1.0


def test_numbers_of_numpy_are_numbers(log: RolloutLog) -> None:
    append(log.folder, trajectory(reward=np.float64(0.5), em=np.float32(1.0)), step=1, split="train", sample=0)
    log.gather(1)
    assert pd.read_parquet(log.folder / "train_00001.parquet")["reward"][0] == 0.5


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_rollouts import trajectory
from tasks.training.rollouts import append
for number in range(10**9):
    append(Path(sys.argv[1]), trajectory(f"q{number:09}", "\\u2028" * 3000), step=1, split="train", sample=0)
    if number == 20:
        print("going", flush=True)
"""


def test_a_kill_leaves_whole_lines(log: RolloutLog, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert writer.stdout.readline() == "going\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    log.gather(1)
    frame = pd.read_parquet(tmp_path / "train_00001.parquet")
    assert list(frame["question_id"]) == [f"q{number:09}" for number in range(len(frame))]
    assert len(frame) > 20
    assert set(frame["answer"]) == {"\u2028" * 3000}


@pytest.mark.parametrize("cut", [-1, -2, 9])
def test_a_line_that_a_kill_has_cut_is_left_out(log: RolloutLog, cut: int) -> None:
    append(log.folder, trajectory("a"), step=1, split="train", sample=0)
    (path,) = log.folder.iterdir()
    line = path.read_bytes()
    path.write_bytes(line + line.replace(b'"a"', b'"b"')[:cut])
    log.gather(1)
    assert list(pd.read_parquet(log.folder / "train_00001.parquet")["question_id"]) == ["a"]


@pytest.mark.parametrize("form", ["{0}{zeros}", "{0}{zeros}\n", "{zeros}\n{0}", "{zeros}{0}", "{0}{zeros}{1}"])
def test_a_page_of_zeros_after_a_power_failure_is_no_row(log: RolloutLog, form: str) -> None:
    for question in ("a", "b"):
        append(log.folder, trajectory(question), step=1, split="train", sample=0)
    (path,) = log.folder.iterdir()
    path.write_text(form.format(*path.read_text().splitlines(keepends=True), zeros="\0" * 4096))
    log.gather(1)
    kept = list(pd.read_parquet(log.folder / "train_00001.parquet")["question_id"])
    assert kept == ["a", "b"][: 1 + ("{1}" in form)]


def test_a_step_of_torn_lines_alone_has_no_file_and_no_figures(log: RolloutLog) -> None:
    append(log.folder, trajectory("a"), step=1, split="train", sample=0)
    (path,) = log.folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    append(log.folder, trajectory("b"), step=2, split="train", sample=0)
    log.gather()
    assert names(log) == ["train_00002.parquet"]
    assert log.figures(1) == {} and log.figures(2) != {}
    # Played again, it is whole.
    append(log.folder, trajectory("a"), step=1, split="train", sample=0)
    log.gather(1)
    assert len(pd.read_parquet(log.folder / "train_00001.parquet")) == 1


def test_a_broken_line_that_is_whole_is_an_error_and_nothing_is_lost(log: RolloutLog) -> None:
    (log.folder / "train_00001.abc.jsonl").write_bytes(b"{\n")
    with pytest.raises(json.JSONDecodeError):
        log.gather(1)
    assert names(log) == ["train_00001.abc.jsonl"]


def test_what_a_resumed_run_plays_once_more_does_not_count(log: RolloutLog) -> None:
    append(log.folder, trajectory("a", answer="first"), step=2, split="validation", sample=0)
    log.gather()
    append(log.folder, trajectory("a", answer="second"), step=2, split="validation", sample=0)
    log.gather(2)
    assert names(log) == ["validation_00002.parquet"]
    assert list(pd.read_parquet(log.folder / "validation_00002.parquet")["answer"]) == ["first"]


def test_an_episode_that_two_workers_played_counts_once(log: RolloutLog) -> None:
    append(log.folder, trajectory("a"), step=1, split="train", sample=0)
    (path,) = log.folder.iterdir()
    (log.folder / "train_00001.other.jsonl").write_bytes(path.read_bytes())
    log.gather(1)
    assert len(pd.read_parquet(log.folder / "train_00001.parquet")) == 1


def test_rewinding_drops_later_steps_gathered_or_not(log: RolloutLog) -> None:
    for step in (1, 2, 3):
        append(log.folder, trajectory(), step=step, split="train", sample=0)
    log.gather(1)
    log.gather(3)
    (log.folder / ".train_00002.parquet.partial").write_bytes(b"half")
    log.rewind(2)
    log.gather()
    assert names(log) == ["train_00001.parquet", "train_00002.parquet"]
    log.rewind(0)
    assert names(log) == []


def test_published_files_and_a_table_without_texts(log: RolloutLog, tmp_path: Path) -> None:
    for step in (0, 1):
        append(log.folder, trajectory(success=float(step)), step=step, split="validation", sample=0)
    log.gather()
    frame = log.publish(tmp_path / "out" / "rollouts")
    assert sorted(path.name for path in (tmp_path / "out" / "rollouts").iterdir()) == [
        "validation_00000.parquet",
        "validation_00001.parquet",
    ]
    assert list(frame["success"]) == [0.0, 1.0]
    assert "text" not in frame


def test_figures_stand_beside_those_of_verl(log: RolloutLog) -> None:
    append(log.folder, trajectory(reward=1.0), step=1, split="train", sample=0)
    append(log.folder, trajectory(reward=0.0), step=1, split="train", sample=1)
    append(log.folder, trajectory("v", stop_reason="answer"), step=1, split="validation", sample=0)
    log.gather()
    verl = [{"step": 0, "data": {"val/x": 1}}, {"step": 1, "data": {"critic/score/mean": 0.5}}]
    zeroth, first = log.beside(verl)
    assert zeroth == verl[0]
    assert first["data"]["critic/score/mean"] == 0.5
    assert first["data"]["episode/groups_without_signal"] == 0.0
    assert first["data"]["episode/stop/answer"] == 0.0
    assert first["data"]["val-episode/stop/answer"] == 1.0
