import json
from pathlib import Path

import pandas as pd

from tasks.agent.trajectory import Segment, Trajectory, write_trajectories


def trajectory(**more) -> Trajectory:
    return Trajectory(
        question_id="q",
        environment="search",
        data_source="made",
        question="Who?",
        golden_answers=["Ada", "Lovelace"],
        hops=2,
        prompt_ids=[1, 2],
        **more,
    )


def test_parquet_keeps_everything(tmp_path: Path) -> None:
    played = trajectory(
        segments=[
            Segment("generated", "<search> é\u2028 </search>", [3, 4], [-0.5, -0.25]),
            Segment("observation", "<information>", [5]),
            Segment("generated", "<answer>", [6], [-1.5]),
        ],
        queries=["é"],
        passage_ids=[["p1", "p2"], []],
        tool_latencies=[0.1],
        turns=2,
        answer="Ada",
        stop_reason="answer",
        reward_parts={"em": 1.0},
        sampling={"temperature": 0.0},
    )
    empty = trajectory()
    path = tmp_path / "new" / "t.parquet"
    write_trajectories(path, [played, empty], model="rl")
    rows = pd.read_parquet(path).to_dict("records")
    first, second = rows
    assert list(first["prompt_ids"]) == [1, 2] and list(first["golden_answers"]) == ["Ada", "Lovelace"]
    assert list(first["response_ids"]) == [3, 4, 5, 6]
    assert list(first["response_mask"]) == [1, 1, 0, 1]
    assert list(first["response_logprobs"]) == [-0.5, -0.25, 0.0, -1.5]
    assert json.loads(first["segments"]) == [
        {"kind": "generated", "text": "<search> é\u2028 </search>", "tokens": 2, "mask": 1},
        {"kind": "observation", "text": "<information>", "tokens": 1, "mask": 0},
        {"kind": "generated", "text": "<answer>", "tokens": 1, "mask": 1},
    ]
    assert json.loads(first["passage_ids"]) == [["p1", "p2"], []]
    assert json.loads(first["reward_parts"]) == {"em": 1.0}
    assert json.loads(first["sampling"]) == {"temperature": 0.0}
    assert (first["model"], first["searches"], first["answer"], first["hops"]) == ("rl", 1, "Ada", 2)
    assert list(second["response_ids"]) == [] and pd.isna(second["answer"]) and second["text"] == ""


def test_an_engine_without_logprobs_gives_zeros() -> None:
    played = trajectory(segments=[Segment("generated", "ab", [1, 2]), Segment("generated", "c", [3], [-1.0])])
    assert played.response_logprobs == [0.0, 0.0, -1.0]
