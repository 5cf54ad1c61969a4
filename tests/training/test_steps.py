import csv
import json
from pathlib import Path

import pytest

from tasks.training.steps import Follower, completed, numbers, read_steps, write_steps, write_table


def line(step: int, **data) -> bytes:
    return json.dumps({"step": step, "data": data}).encode() + b"\n"


def test_lines_of_a_step_are_merged_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(line(2, a=1) + line(1, a=0) + line(2, b=2) + line(3, a=9)[:-1])
    assert read_steps(path) == [{"step": 1, "data": {"a": 0}}, {"step": 2, "data": {"a": 1, "b": 2}}]
    assert read_steps(tmp_path / "absent.jsonl") == []


def test_a_broken_line_that_is_whole_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"{\n" + line(1, a=1))
    with pytest.raises(json.JSONDecodeError):
        read_steps(path)


def test_written_steps_are_read_again(tmp_path: Path) -> None:
    steps = [{"step": 1, "data": {"name": "\u2028é", "x": 0.5}}, {"step": 2, "data": {}}]
    write_steps(tmp_path / "s.jsonl", steps)
    assert read_steps(tmp_path / "s.jsonl") == steps
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_failed_write_leaves_the_old_steps(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_steps(path, [{"step": 1, "data": {}}])

    def broken():
        yield {"step": 1, "data": {}}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_steps(path, broken())
    assert read_steps(path) == [{"step": 1, "data": {}}]


def test_table_holds_the_training_steps(tmp_path: Path) -> None:
    steps = [
        {"step": 0, "data": {"val/x": 1.0}},
        {"step": 1, "data": {"critic/score/mean": 0.5}},
        {"step": 2, "data": {"critic/score/mean": 0.25, "b": 3}},
    ]
    write_table(tmp_path / "s.csv", steps)
    with (tmp_path / "s.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"step": "1", "b": "", "critic/score/mean": "0.5"},
            {"step": "2", "b": "3", "critic/score/mean": "0.25"},
        ]


def test_follower_reports_each_whole_line_once(tmp_path: Path) -> None:
    path, seen = tmp_path / "live.jsonl", []
    follower = Follower(path, lambda step, metrics: seen.append((step, metrics)))
    follower.poll()
    with path.open("wb", buffering=0) as file:
        file.write(line(1, a=1, text="é"))
        follower.poll()
        follower.poll()
        assert seen == [(1, {"a": 1.0})]
        second = line(2, a=2)
        file.write(second[:9])
        follower.poll()
        assert len(seen) == 1
        file.write(second[9:] + line(3, a=3))
        follower.poll()
    assert seen == [(1, {"a": 1.0}), (2, {"a": 2.0}), (3, {"a": 3.0})]


def test_numbers_alone_are_metrics() -> None:
    assert numbers({"a": 1, "b": 0.5, "c": "x", "d": [1], "e": None}) == {"a": 1.0, "b": 0.5}


def test_the_entropy_has_one_name_whoever_computed_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "steps.jsonl", []
    path.write_bytes(
        line(1, **{"actor/entropy_loss": 0.5}) + line(2, **{"actor/entropy": 0.4, "actor/entropy_loss": 0.5})
    )
    Follower(path, lambda step, metrics: seen.append(metrics["actor/entropy"])).poll()
    assert seen == [step["data"]["actor/entropy"] for step in read_steps(path)] == [0.5, 0.4]
    assert completed({"val/x": 1.0}) == {"val/x": 1.0}
