import json

import pandas as pd
import pytest

from tasks.evaluation.metrics import METRICS, summarise

SETTINGS = {"confidence": 0.95, "resamples": 300, "seed": 0}


def frame_of(**em: list[float]) -> pd.DataFrame:
    rows = [
        {
            "model": model, "question_id": f"q{n}", "data_source": "a" if n < 2 else "b", "hops": 1 + n % 2,
            "success": value, "em": value, "f1": value / 2, "format_valid": bool(n), "searches": n, "turns": n + 1,
            "stop_reason": "answer" if n else "turns", "calls": json.dumps([{"failure": None}] * n),
            "invalid_turns": 0, "forced_answer": False, "copied_example": False,
            "answer": "x" if n != 1 else None, "generated_tokens": 10 * n, "response_ids": [1] * (10 * n + 5),
            "tool_latencies": [0.1, 0.3] if n == 3 else [], "citation_precision": None, "citation_recall": None,
            "gold_passage_ids": [["p"], ["p", "r"], [], ["q"]][n % 4],
            "passage_ids": json.dumps([["p"], ["q"]]), "type": ("bridge", None)[n % 2],
        }
        for model, values in em.items()
        for n, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_figures_by_hand() -> None:
    figures = summarise(frame_of(base=[0, 0, 0, 1], sft=[0, 1, 0, 1], rl=[1, 1, 1, 1]), **SETTINGS)
    models = figures["models"]
    assert {name: model["em"]["mean"] for name, model in models.items()} == {"base": 0.25, "sft": 0.5, "rl": 1.0}
    assert set(models["rl"]) == {*METRICS, "hit_rate", "tool_latency", "n"} and models["rl"]["n"] == 4
    # Wilson, 4 of 4: low = 4 / (4 + z^2) = 4 / (4 + 3.8415).
    assert models["rl"]["em"] == pytest.approx({"mean": 1.0, "low": 0.51010, "high": 1.0}, abs=1e-4)
    assert models["rl"]["format_rate"]["mean"] == 0.75
    assert models["rl"]["searches"]["mean"] == 1.5 and models["rl"]["turns"]["mean"] == 2.5
    assert models["base"]["f1"]["mean"] == 0.125
    assert models["rl"]["answer_rate"]["mean"] == 0.75
    assert models["rl"]["generated_tokens"]["mean"] == 15 and models["rl"]["response_tokens"]["mean"] == 20
    # Of three questions with gold passages, one has not seen all of them; one question alone has called tools.
    assert models["rl"]["hit_rate"]["mean"] == pytest.approx(2 / 3)
    assert models["rl"]["tool_latency"]["mean"] == pytest.approx(0.2)


def test_comparisons_are_paired_and_later_minus_earlier() -> None:
    figures = summarise(frame_of(base=[0, 0, 0, 1], sft=[0, 1, 0, 1], rl=[1, 1, 1, 0]), **SETTINGS)["comparisons"]
    assert list(figures) == ["rl-sft", "rl-base", "sft-base"]
    assert figures["rl-base"]["em"]["mean"] == 0.5
    # McNemar's mid-p: 2 P(fewer) less the probability of the split itself.
    assert figures["rl-base"]["em"]["p"] == pytest.approx(2 * (1 + 4) / 16 - 4 / 16)  # 3 won, 1 lost
    assert figures["rl-sft"]["em"]["p"] == pytest.approx(2 * (1 + 3) / 8 - 3 / 8)  # 2 won, 1 lost
    assert figures["rl-sft"]["hit_rate"]["mean"] == 0.0 and "tool_latency" not in figures["rl-sft"]
    assert figures["rl-sft"]["searches"] == {"mean": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}
    assert figures["sft-base"]["em"]["low"] <= 0.25 <= figures["sft-base"]["em"]["high"]


def test_pairs_go_by_question_and_not_by_position() -> None:
    frame = frame_of(sft=[0, 1, 0, 1], rl=[0, 1, 1, 1])
    shuffled = frame.sample(frac=1, random_state=1).sort_values("model", ascending=False, kind="stable")
    assert summarise(shuffled, **SETTINGS) == summarise(frame, **SETTINGS)


def test_slices() -> None:
    slices = summarise(frame_of(rl=[1, 0, 1, 1]), **SETTINGS)["slices"]["rl"]
    assert {name: (piece["em"]["mean"], piece["n"]) for name, piece in slices.items()} == {
        "hops-1": (1.0, 2), "hops-2": (0.5, 2), "source-a": (0.5, 2), "source-b": (1.0, 2), "type-bridge": (1.0, 2),
    }  # fmt: skip
    # One of the two has gold passages.
    assert slices["hops-1"]["hit_rate"]["mean"] == 1.0 and slices["source-b"]["hit_rate"]["mean"] == 1.0
    assert slices["hops-2"]["searches"]["mean"] == 2.0


def test_a_graded_success_is_a_mean_and_no_rate() -> None:
    frame = frame_of(sft=[0, 1] * 20, rl=[1, 1] * 20)
    frame["success"] = [0.2, 0.4, 0.9, 0.1] * 10 + [0.5] * 40
    success = summarise(frame, **SETTINGS)["models"]["rl"]["success"]
    assert success == {"mean": 0.5, "low": 0.5, "high": 0.5}


def test_figures_are_plain_json(trajectories) -> None:
    figures = summarise(trajectories({"base": 0.1, "sft": 0.4, "rl": 0.8}), **SETTINGS)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_a_figure_that_no_question_has_is_left_out() -> None:
    frame = frame_of(sft=[0, 1], rl=[1, 1])
    frame["gold_passage_ids"] = [[]] * 4
    figures = summarise(frame, **SETTINGS)
    for found in (figures["models"]["rl"], figures["comparisons"]["rl-sft"], figures["slices"]["rl"]["hops-1"]):
        assert not {"hit_rate", "tool_latency"} & set(found)


def test_scores_that_are_all_alike_at_a_bound_have_an_interval_with_a_width() -> None:
    figures = summarise(frame_of(sft=[0, 0, 0, 0], rl=[0, 0, 0, 0]), **SETTINGS)
    f1, em = figures["models"]["rl"]["f1"], figures["models"]["rl"]["em"]
    assert f1 == em and f1["high"] == pytest.approx(3.8415 / (4 + 3.8415), abs=1e-4)
    gain = figures["comparisons"]["rl-sft"]
    assert gain["f1"]["low"] == gain["em"]["low"] == pytest.approx(-1.96 * 2**0.5 / 6, abs=1e-3)


def test_wrong_frames_are_refused() -> None:
    frame = frame_of(sft=[0, 1], rl=[1, 1])
    with pytest.raises(ValueError, match="no trajectories"):
        summarise(frame.head(0), **SETTINGS)
    with pytest.raises(ValueError, match="different questions"):
        summarise(frame.head(3), **SETTINGS)
    with pytest.raises(ValueError, match="different questions"):
        summarise(frame.assign(question_id=["q0", "q1", "q0", "q2"]), **SETTINGS)
    with pytest.raises(ValueError, match="twice"):
        summarise(pd.concat([frame, frame]), **SETTINGS)
    with pytest.raises(ValueError, match="missing in column 'f1'"):
        summarise(frame.assign(f1=[0, None, 0, 0]), **SETTINGS)


def test_citations_are_figures_where_the_protocol_has_them() -> None:
    frame = frame_of(sft=[0, 1, 0, 1], rl=[1, 1, 1, 1])
    frame["citation_precision"] = [None, 0.5, None, 1.0, 0.0, 1.0, 1.0, 1.0]
    frame["citation_recall"] = [None, 0.5, 0.0, 1.0, None, 1.0, 0.5, 1.0]  # q0: no gold passage is known
    assert "citation_precision" not in summarise(frame, **SETTINGS)["models"]["rl"]
    figures = summarise(frame, **SETTINGS, cites=True)
    of = {name: (model["citation_precision"]["mean"], model["citation_recall"]["mean"])
          for name, model in figures["models"].items()}  # fmt: skip
    assert of == {"sft": (0.5, 0.5), "rl": (1.0, pytest.approx(2.5 / 3))}
    gain = figures["comparisons"]["rl-sft"]
    assert gain["citation_precision"]["mean"] == 0.5 and gain["citation_recall"]["mean"] == pytest.approx(1 / 3)
    frame["citation_recall"] = None
    unknown = summarise(frame, **SETTINGS, cites=True)["models"]["rl"]
    assert not {"citation_precision", "citation_recall"} & set(unknown)


def test_endings_are_counted_by_model() -> None:
    frame = frame_of(sft=[0, 1, 0, 1], rl=[1, 1, 1, 1])
    calls = [{"failure": None}, {"failure": "timeout"}, {"failure": "raised"}, {"failure": "timeout"}]
    frame.loc[0, "calls"] = json.dumps(calls)
    frame.loc[5, ["invalid_turns", "copied_example"]] = [2, True]
    assert summarise(frame, **SETTINGS)["endings"] == {
        "sft": {
            "stopped_by": {"answer": 3, "turns": 1}, "calls": 4 + 1 + 2 + 3, "invalid_turns": 0,
            "failed_calls": {"raised": 1, "timeout": 2}, "forced_answer": 0, "copied_example": 0,
        },
        "rl": {
            "stopped_by": {"answer": 3, "turns": 1}, "calls": 6, "invalid_turns": 2,
            "failed_calls": {}, "forced_answer": 0, "copied_example": 1,
        },
    }  # fmt: skip
