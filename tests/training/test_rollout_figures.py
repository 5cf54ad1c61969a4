import pandas as pd
import pytest

from tasks.agent.trajectory import CallRecord, Segment, Trajectory
from tasks.training.rollout_figures import COLUMNS, Alarms, episode_figures


def episode(question: str, reward: float, tokens: int = 2, calls=(), **more) -> dict:
    segments = [Segment("generated", "x", [1] * tokens), Segment("observation", "y", [2] * 50)]
    fields = {"reward": reward, "reward_parts": {"em": reward}, "segments": segments, "calls": list(calls), **more}
    row = Trajectory(question, "search", "made", "Who?", ["a"], 1, [1], **fields).record()
    return {name: row[name] for name in COLUMNS}


def figures(*episodes: dict) -> dict[str, float]:
    return episode_figures(pd.DataFrame(list(episodes)))


def test_figures_of_a_step_counted_by_hand() -> None:
    failed = [CallRecord("search", "a", 0.1, "timeout"), CallRecord("search", " A ", 0.1, "timeout")]
    other = [CallRecord("search", "b", 0.1), CallRecord("lookup", "b", 0.1, "unknown")]
    found = figures(
        episode("one", 0.1, 2, failed, stop_reason="answer", answer="x", queries=["a"], invalid_turns=1),
        episode("one", 0.1, 4, other, stop_reason="answer", answer="and", copied_example=True, queries=["a", "b"]),
        episode("two", 1.0, 9, stop_reason="deadline", no_loss=True, reward_parts={"fallback": 1.0}),
        episode("two", 0.0, 1, stop_reason="length", forced_answer=True),
    )
    assert found["groups_without_signal"] == 0.5
    assert {name: value for name, value in found.items() if name.startswith("stop/") and value} == {
        "stop/answer": 0.5,
        "stop/deadline": 0.25,
        "stop/length": 0.25,
    }
    assert found["no_loss_on_traj"] == 1.0
    assert (found["tool_calls"], found["repeated_calls"], found["searches"]) == (1.0, 0.25, 0.75)
    assert {name: value for name, value in found.items() if name.startswith("tool_failures/") and value} == {
        "tool_failures/all": 3.0,
        "tool_failures/timeout": 2.0,
        "tool_failures/unknown": 1.0,
    }
    assert (found["answers"], found["copied_example"]) == (2.0, 1.0)
    assert (found["invalid_turns"], found["forced_answer"], found["user_failures"]) == (0.25, 0.25, 0.0)
    assert (found["generated_tokens/mean"], found["generated_tokens/max"]) == (4.0, 9.0)  # observations do not count
    assert found["reward/em"] == pytest.approx(0.05) and found["reward/fallback"] == 0.25
    assert "citation_precision" not in found


def test_calls_that_were_not_run_since_they_repeat_are_no_failures_of_a_tool() -> None:
    repeated = [CallRecord("search", "a"), CallRecord("search", "A", failure="repeated")]
    found = figures(episode("one", 0.0, calls=repeated, stop_reason="repeat", user_failures=2))
    assert (found["repeated_calls"], found["tool_failures/all"], found["user_failures"]) == (1.0, 0.0, 2.0)


def test_citations_are_averaged_where_there_are_any() -> None:
    found = figures(
        episode("q", 0.0, citation_precision=0.5, citation_recall=1.0),
        episode("q", 1.0, citation_precision=None, citation_recall=0.0),
    )
    assert (found["citation_precision"], found["citation_recall"]) == (0.5, 0.5)


def test_a_group_of_equal_rewards_has_no_signal() -> None:
    assert figures(*[episode("q", 0.1) for _ in range(8)])["groups_without_signal"] == 1.0


def test_questions_played_once_are_no_groups() -> None:
    assert "groups_without_signal" not in figures(episode("a", 0.1), episode("b", 0.1))


def alarmed(alarms: Alarms, **named: float) -> list[str]:
    return alarms.of({f"episode/{name}": value for name, value in named.items()})


def test_copied_examples_are_told_when_they_pass_the_bound_and_when_they_double() -> None:
    alarms = Alarms("Beijing")
    said = [bool(alarmed(alarms, answers=100, copied_example=copied)) for copied in (0, 5, 6, 7, 12, 13, 20, 27)]
    assert said == [False, False, True, False, False, True, False, True]
    (line,) = alarmed(Alarms("Beijing"), answers=128, copied_example=32)
    assert "32 of 128 answers (25%)" in line and "'Beijing'" in line and "episode.example_answer" in line
    assert alarmed(alarms, answers=0, copied_example=0) == []


def test_flat_groups_are_told_once_until_they_have_been_mended() -> None:
    alarms = Alarms(None)
    said = [bool(alarmed(alarms, groups_without_signal=share)) for share in (0.9, 0.95, 1.0, 0.5, 0.91)]
    assert said == [False, True, False, False, True]


def test_a_validation_without_training_raises_no_alarm() -> None:
    assert Alarms(None).of({"val-episode/groups_without_signal": 1.0, "val/x": 1.0}) == []
