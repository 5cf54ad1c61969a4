"""Episodes with a simulated user."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from tasks.agent import interactions
from tasks.agent.budget import Budget

BUDGET = Budget(max_turns=4, max_response_tokens=400, max_turn_tokens=40, max_observation_tokens=60)
ANSWER = "<answer> Rove </answer>"


class Speaks:
    """A user who says what it is told, whatever the answer; or hangs, or breaks."""

    def __init__(self, word: Any) -> None:
        self._word = word

    def reply(self, row: dict[str, Any], answer: str, said: int) -> Any:
        return self._word() if callable(self._word) else self._word


def test_a_user_may_answer_an_answer(play, script, kinds) -> None:
    user = interactions.create("second_try")
    trajectory = play(script("<answer> Kashi </answer>", ANSWER), interaction=user)
    assert kinds(trajectory) == ["generated", "user", "generated"]
    word = "That is not right. Look again, and give another answer."
    assert trajectory.segments[1].text == (f"<|im_end|>\n<|im_start|>user\n{word}<|im_end|>\n<|im_start|>assistant\n")
    # The user asked for the second answer: it is no second guess, and is paid in full.
    assert (trajectory.user_turns, trajectory.answer_blocks, trajectory.reward) == (1, 1, 1.0)
    assert trajectory.format_valid
    # A right answer is left alone, and the user does not speak more often than allowed.
    assert kinds(play(script(ANSWER), interaction=user)) == ["generated"]
    trajectory = play(script("<answer> x </answer>"), interaction=user)
    assert (trajectory.turns, trajectory.stop_reason, trajectory.reward) == (2, "answer", pytest.approx(0.1))
    trajectory = play(script("<answer> x </answer>"), replace(BUDGET, max_user_turns=0), interaction=user)
    assert trajectory.turns == 1


@pytest.mark.parametrize(
    ("turns", "blocks", "reward"),
    [
        (("<answer> x </answer> <answer> Rove </answer>", "yes<|im_end|>"), 2, 0.5),  # nothing was answered to the user
        (("<answer> x </answer>", "<answer> Rove </answer>"), 1, 1.0),
        (("<answer> x </answer>", "<answer> y </answer> <answer> Rove </answer>"), 2, 0.5),
        (("<answer> x </answer> <answer> y </answer>", "<answer> Rove </answer>"), 2, 0.5),
    ],
)
def test_a_users_word_excuses_the_answer_that_it_asked_for_and_no_other(play, turns, blocks, reward, script) -> None:
    trajectory = play(script(*turns), interaction=Speaks("Go on."))
    assert (trajectory.answer, trajectory.answer_blocks, trajectory.reward) == ("Rove", blocks, reward)


def test_a_user_who_hangs_or_breaks_is_counted_and_the_answer_stands(play, script) -> None:
    hanging = threading.Event()
    budget = replace(BUDGET, user_seconds=0.1)
    for word in (hanging.wait, lambda: 1 / 0, b"bytes"):
        trajectory = play(script(ANSWER), budget, interaction=Speaks(word))
        assert (trajectory.stop_reason, trajectory.reward, trajectory.user_failures) == ("answer", 1.0, 1)
        assert trajectory.calls == []  # a user is no tool
    hanging.set()


def test_half_a_character_in_a_users_word_is_replaced(play, script) -> None:
    trajectory = play(script("<answer> x </answer>", ANSWER), interaction=Speaks("why \ud83d"))
    assert (trajectory.user_turns, trajectory.reward) == (1, 1.0) and "why ?" in trajectory.text
