"""Episodes by rules that a budget may set: a last turn, corrections, repeats, a deadline."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tasks.agent.budget import Budget
from tasks.agent.episode import Generation
from tasks.agent.protocols import SearchR1

PROTOCOL = SearchR1()
BUDGET = Budget(max_turns=4, max_response_tokens=400, max_turn_tokens=40, max_observation_tokens=60)
ANSWER = "<answer> Rove </answer>"


def test_the_answer_is_asked_for_before_the_last_turn(play, script, kinds) -> None:
    asks = replace(BUDGET, max_turns=2, force_answer=True)
    trajectory = play(script("<search> a </search>", ANSWER), asks)
    assert trajectory.forced_answer and trajectory.stop_reason == "answer" and trajectory.reward == 1.0
    assert kinds(trajectory) == ["generated", "observation", "generated"]
    assert trajectory.segments[1].text.endswith(f"</information>\n{PROTOCOL.last_turn}\n")
    assert trajectory.format_valid
    # One that searches all the same has had its last turn.
    trajectory = play(script("<search> a </search>"), asks)
    assert (trajectory.turns, trajectory.stop_reason, len(trajectory.queries)) == (2, "turns", 1)
    # With a turn to spare nobody asks.
    trajectory = play(script("<search> a </search>", ANSWER), replace(BUDGET, force_answer=True))
    assert not trajectory.forced_answer and PROTOCOL.last_turn not in trajectory.text


def test_the_only_turn_is_asked_to_answer_at_once(play, script, kinds) -> None:
    trajectory = play(script(ANSWER), replace(BUDGET, max_turns=1, force_answer=True))
    assert kinds(trajectory) == ["notice", "generated"] and trajectory.reward == 1.0
    assert trajectory.response_mask[0] == 0


def test_the_answer_is_asked_for_when_an_observation_leaves_no_room(play, tokenizer, script, kinds) -> None:
    turn = tokenizer.encode("<search> a </search>")
    ask = tokenizer.encode(f"\n{PROTOCOL.last_turn}\n")
    room = len(turn) + len(ask) + 12
    for force, expected in ((False, "length"), (True, "answer")):
        budget = Budget(4, room, 40, 60, force_answer=force)
        trajectory = play(script(turn, ANSWER), budget)
        assert trajectory.stop_reason == expected
        assert len(trajectory.response_ids) <= room
    assert kinds(trajectory) == ["generated", "notice", "generated"] and trajectory.forced_answer
    # The turn that was to answer has no call left.
    trajectory = play(script(turn), budget)
    assert (trajectory.stop_reason, trajectory.turns, len(trajectory.calls)) == ("turns", 2, 1)


def test_an_answer_that_nobody_could_be_asked_for_was_not_asked_for(play, tokenizer, script, kinds) -> None:
    turn = tokenizer.encode("<search> a </search>")
    trajectory = play(script(turn), Budget(4, len(turn) + 2, 40, 60, force_answer=True))
    assert (trajectory.stop_reason, trajectory.forced_answer, kinds(trajectory)) == ("length", False, ["generated"])
    budget = Budget(2, 12, 40, 60, force_answer=True, correct_invalid=True)
    trajectory = play(script("hm"), budget)
    assert (trajectory.stop_reason, trajectory.forced_answer, kinds(trajectory)) == ("length", False, ["generated"])


def test_an_invalid_turn_is_corrected_where_that_is_wanted(play, script, kinds) -> None:
    corrects = replace(BUDGET, correct_invalid=True)
    trajectory = play(script("hm", ANSWER), corrects)
    assert kinds(trajectory) == ["generated", "notice", "generated"]
    assert trajectory.segments[1].text == f"\n{PROTOCOL.correction}\n"
    assert (trajectory.stop_reason, trajectory.invalid_turns, trajectory.reward) == ("answer", 1, 1.0)
    assert trajectory.invalid_reasons == ["no block at the end"]
    assert not trajectory.format_valid  # the answer is paid for; that it took a correction is told
    trajectory = play(script("hm"), corrects)
    assert (trajectory.turns, trajectory.stop_reason, trajectory.invalid_turns) == (4, "invalid", 4)


def test_a_correction_says_that_the_next_turn_is_the_last(play, script) -> None:
    budget = replace(BUDGET, max_turns=2, correct_invalid=True, force_answer=True)
    trajectory = play(script("hm", "<search> a </search>"), budget)
    assert trajectory.segments[1].text == f"\n{PROTOCOL.correction} {PROTOCOL.last_turn}\n"
    assert (trajectory.stop_reason, trajectory.queries) == ("turns", [])


def test_the_very_same_call_breaks_the_loop(play, script) -> None:
    engine = script("<search> a b </search>", "<search> A  B </search>", "<search> c </search>")
    trajectory = play(engine, replace(BUDGET, max_turns=9, max_repeats=2, max_response_tokens=4000))
    # a, A, c, a: the third of the same is not run.
    assert (trajectory.stop_reason, trajectory.turns) == ("repeat", 4)
    assert trajectory.queries == ["a b", "A  B", "c"]
    assert [call.failure for call in trajectory.calls] == [None, None, None, "repeated"]
    assert len(trajectory.tool_latencies) == 4


class Hangs:
    """Generates one turn, and then nothing any more."""

    def __init__(self, tokenizer: Any) -> None:
        self._turn: list[int] | None = tokenizer.encode("<search> a </search>")

    async def __call__(self, prompt: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        if self._turn is None:
            await asyncio.sleep(60)
        ids, self._turn = self._turn, None
        return Generation(ids or [], None)


def test_a_straggler_is_cut_at_its_deadline_and_gets_the_fallback_reward(play, tokenizer, kinds) -> None:
    budget = replace(BUDGET, deadline_seconds=0.2, fallback_reward=-0.5)
    trajectory = play(Hangs(tokenizer), budget)
    assert (trajectory.stop_reason, trajectory.reward) == ("deadline", -0.5)
    assert trajectory.reward_parts == {"em": 0.0, "format": 0.0, "fallback": -0.5}
    assert kinds(trajectory) == ["generated", "observation"] and trajectory.success == 0.0


def test_a_time_out_of_the_engines_own_is_no_deadline(play) -> None:
    async def broken(prompt: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        raise TimeoutError("the engine's")

    with pytest.raises(TimeoutError, match="the engine's"):
        play(broken, replace(BUDGET, deadline_seconds=60.0))


def test_an_answer_that_copies_the_prompts_example_is_noticed(play, script) -> None:
    for answer, copied in (("<answer> BEIJING </answer>", True), (ANSWER, False), ("none", False)):
        assert play(script(answer), example_answer="Beijing").copied_example is copied
    assert not play(script("<answer> Beijing </answer>")).copied_example


def test_no_answer_reaches_from_one_turn_into_the_next(play, script) -> None:
    corrects = replace(BUDGET, correct_invalid=True)
    trajectory = play(script("<answer> Ro", "ve </answer>", "no"), replace(corrects, max_turns=3))
    assert (trajectory.answer, trajectory.answer_blocks, trajectory.reward) == (None, 0, 0.0)
