import pandas as pd
import pytest

from tasks.agent.trajectory import CallRecord, Segment, Trajectory
from tasks.training.rollout_figures import COLUMNS, episode_figures


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
    assert found["score"] == pytest.approx((0.1 + 0.1 + 1.0 + 0.0) / 4)
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


def test_what_groups_teach_is_told_by_success_and_by_reward() -> None:
    found = figures(
        *[episode("right", reward, success=1.0) for reward in (1.0, 0.9)],
        *[episode("wrong", reward, success=0.0) for reward in (0.1, 0.1, 0.0)],
        *[episode("mixed", reward, success=reward) for reward in (1.0, 0.0)],
        *[episode("half", 0.5, success=0.5) for _ in range(2)],
    )
    kinds = ("generated", "mixed", "all_right", "all_wrong", "equal_otherwise")
    assert [found[f"groups/{kind}"] for kind in kinds] == [4, 0.25, 0.25, 0.25, 0.25]
    assert found["groups_without_signal"] == 0.25  # by the reward, which the form shapes as well
    assert (found["success"], found["em"]) == (pytest.approx(4 / 9), 0.0)


def written(question: str, logprobs: list[float], **more) -> dict:
    """An episode of one turn with these log-probabilities, 3 tokens shown, and an answer of one token."""
    segments = [
        Segment("generated", "x", [1] * len(logprobs), logprobs),
        Segment("observation", "y", [2] * 3),
        Segment("generated", "z", [1], [-4.0]),
    ]
    return episode(question, 0.0, segments=segments, **more)


def test_lengths_and_log_probabilities_are_those_of_what_the_policy_wrote() -> None:
    found = figures(
        written("a", [-1.0, -3.0], success=1.0, turns=2, turn_rewards=[0.5, 0.0], format_valid=True),
        written("b", [-0.5], success=0.0, turns=2, turn_rewards=[0.5, 0.5], invalid_turns=1, no_loss=True),
        written("c", [], success=0.5, turns=1, turn_rewards=[0.0]),
    )
    assert (found["logprob/right"], found["logprob/wrong"]) == (pytest.approx(-8 / 3), -2.25)
    assert found["logprob/mean"] == pytest.approx((-8 - 4.5 - 4) / 6)
    assert [found[f"generated_tokens/{name}"] for name in ("mean", "max", "sum")] == [2.0, 3.0, 6.0]
    assert (found["shown_tokens/mean"], found["response_tokens/mean"], found["response_tokens/max"]) == (3.0, 5.0, 6.0)
    assert found["turn_rewards"] == 0.5
    thirds = ("format_valid", "no_loss")
    assert [found[name] for name in thirds] == [pytest.approx(1 / 3)] * 2
    assert (found["turns"], found["valid_trajectories"]) == (pytest.approx(5 / 3), pytest.approx(2 / 3))


def test_the_seconds_are_of_calls_that_were_run() -> None:
    calls = [CallRecord("search", str(n), n / 10) for n in range(11)]
    found = figures(episode("q", 0.0, calls=[*calls, CallRecord("search", "9", failure="repeated")]))
    assert (found["tool_seconds/mean"], found["tool_seconds/p95"]) == (pytest.approx(0.5), pytest.approx(0.95))
    assert "tool_seconds/mean" not in figures(episode("q", 0.0)) and "logprob/right" not in figures(episode("q", 0.0))
