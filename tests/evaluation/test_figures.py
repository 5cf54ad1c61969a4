import pandas as pd
import pyarrow as pa
import pytest

from tasks.evaluation import figures
from tasks.evaluation.intervals import Bootstrap
from tasks.evaluation.playing import Played
from tasks.params import Playing

HOW = Bootstrap(confidence=0.95, resamples=200, seed=0)


def test_pass_at_k_is_the_mean_over_questions() -> None:
    outcomes = pd.DataFrame(
        [
            {"model": model, "question_id": f"q{n}", "success": float(sample < right)}
            for model, rights in (("sft", [0, 2]), ("rl", [1, 4]))
            for n, right in enumerate(rights)
            for sample in range(4)
        ]
    )
    found = figures.pass_at(outcomes, [1, 2], HOW)
    assert list(found) == ["sft", "rl"] and list(found["rl"]) == ["1", "2"]
    assert found["sft"]["1"]["mean"] == pytest.approx(1 / 4)
    assert found["sft"]["2"]["mean"] == pytest.approx((0 + 5 / 6) / 2)
    assert found["rl"]["2"]["mean"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["rl"]["1"]["low"] < found["rl"]["1"]["mean"] < found["rl"]["1"]["high"]


def test_the_figures_of_an_evaluation(trajectories, defaults) -> None:
    frame = trajectories({"sft": 0.2, "rl": 0.8})
    rl = frame[frame["model"] == "rl"]
    sampled = pa.Table.from_pandas(frame[["model", "question_id", "success"]])
    smaller = pa.Table.from_pandas(rl.head(10).assign(answer="Other")[["question_id", "answer", "response_ids"]])
    played = Played(greedy=pa.table({}), seconds={"sft": 4.0, "rl": 2.0}, sampled=sampled, smaller={8: smaller})
    settings = type(defaults.evaluate).model_validate(
        defaults.evaluate.model_dump() | {"pass_at": {"k": [1], "samples": 1, "temperature": 1.0}}
    )
    found = figures.summarise(played, frame, settings, Playing.of(defaults), 0)
    assert found["confidence"] == 0.95
    assert found["throughput"]["rl"] == {"episodes_per_second": 20.0, "generated_tokens_per_second": 60.0}
    assert found["pass_at"]["rl"]["1"]["mean"] == found["models"]["rl"]["em"]["mean"]
    assert found["batch_check"] == {"max-seqs-8": {"questions": 10, "answers_changed": 10, "trajectories_changed": 0}}
    assert len(found["repeat"]["rl"]["answers_sha256"]) == 64
    said = figures.lines(found)
    assert said[1].startswith("rl: EM 0.") and "on 40 questions" in said[1]
    assert said[-1] == ("rl, max seqs 8: 10 of 10 answers and 0 whole trajectories are others than in the evaluation")


def test_what_is_not_asked_for_is_not_among_the_figures(trajectories, defaults) -> None:
    played = Played(greedy=pa.table({}), seconds={"rl": 1.0}, sampled=None, smaller={})
    found = figures.summarise(played, trajectories({"rl": 0.5}), defaults.evaluate, Playing.of(defaults), 0)
    assert not {"pass_at", "batch_check"} & set(found)
