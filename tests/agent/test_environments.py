import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent import environments
from tasks.agent.prompts import Template
from tasks.agent.trajectory import Segment, Trajectory
from tasks.errors import InputError
from tasks.params import Environment

REWARD = {"em": {"weight": 1.0}, "format": {"weight": 0.1}}
LENGTH = {"weight": 1.0, "max_tokens": 100}


def section(**values) -> Environment:
    return Environment.model_validate({"name": "search", "reward": REWARD, **values})


def test_created_by_name_with_its_parameters() -> None:
    environment = environments.create(section(reward={"em": {"weight": 2}, "format": None}))
    assert (environment.name, environment.needs_retrieval) == ("search", True)
    assert (environment.params.reward.em.weight, environment.params.reward.format) == (2.0, None)
    assert "search" in environments.names()


def reward(**parts) -> dict:
    return {"reward": {**REWARD, **parts}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": "serch"}, ["no environment 'serch'", "did you mean 'search'"]),
        ({"name": "zzz"}, ["no environment 'zzz'", "search"]),
        ({"rewards": {}}, ["environment.rewards", "did you mean 'reward'"]),
        ({"zzz": 1.0}, ["environment.zzz", "its keys are: reward"]),
        ({"reward": None}, ["environment.reward"]),
        (reward(formt={"weight": 1.0}), ["environment.reward.formt", "did you mean 'format'"]),
        (reward(zzz=None), ["environment.reward.zzz", "em, f1, cover_em, format,"]),
        (reward(em={"wieght": 1.0}), ["unknown key 'environment.reward.em.wieght'", "did you mean 'weight'"]),
        (reward(em={"weight": 1.0, "zzz": 1}), ["environment.reward.em.zzz", "its keys are: weight"]),
        (reward(format={"weight": 1.0, "decay": 3}), ["environment.reward.format.decay", "mean 'decay_steps'"]),
        (reward(em={}), ["key 'environment.reward.em.weight' is missing"]),
        (reward(em={"weight": "much"}), ["environment.reward.em.weight", "number"]),
        (reward(em={"weight": 0.0}), ["environment.reward.em.weight", "greater than 0"]),
        (reward(em={"weight": float("nan")}), ["environment.reward.em.weight", "finite"]),
        (reward(format={"weight": -0.1}), ["environment.reward.format.weight", "greater than or equal to 0"]),
        (reward(format={"weight": 0.1, "decay_steps": 0}), ["format.decay_steps", "greater than 0"]),
        (reward(soft_overlong=LENGTH), ["key 'environment.reward.soft_overlong.cache_tokens' is missing"]),
        (reward(soft_overlong={**LENGTH, "cache_tokens": 101}), ["reward.soft_overlong: cache_tokens must not be"]),
        (reward(steps={"weight": 0.1, "growth": "cubic"}), ["reward.steps.growth", "'linear' or 'quadratic'"]),
        (reward(repeated_queries={"weight": 0.1, "threshold": 0}), ["repeated_queries.threshold", "greater than 0"]),
        (reward(em=None), ["environment.reward: nothing pays a right answer", "em, f1, cover_em, three_part"]),
    ],
)
def test_wrong_section_is_refused(values, words) -> None:
    with pytest.raises(InputError) as caught:
        environments.environment_params(section(**values), where="params/mine.yaml")
    assert str(caught.value).startswith("params/mine.yaml: ")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_prompt_takes_any_question_as_it_is() -> None:
    environment = environments.create(section())
    messages = environment.prompt(" What is {x}? ", Template((("user", ("Answer.\n", "")),)))
    assert messages == [{"role": "user", "content": "Answer.\nWhat is {x}?"}]


@pytest.mark.parametrize(
    ("played", "expected"),
    [
        ({"answer": "the oka", "answer_blocks": 1, "stop_reason": "answer"}, (1.0, 1.0, True, 1.0)),
        ({"answer": "oka river", "answer_blocks": 1, "stop_reason": "answer"}, (0.0, 2 / 3, True, 0.1)),
        ({"answer": "oka", "answer_blocks": 2, "stop_reason": "answer"}, (1.0, 1.0, False, 0.5)),
        ({"answer": "oka", "answer_blocks": 1, "stop_reason": "answer", "invalid_turns": 1}, (1.0, 1.0, False, 1.0)),
        ({"stop_reason": "turns"}, (0.0, 0.0, False, 0.0)),
    ],
)
def test_a_trajectory_is_scored(played, expected) -> None:
    trajectory = Trajectory("q", "search", "made", "Which river?", ["Oka"], 1, [1], **played)
    environments.create(section()).score(trajectory, {"reward_model": {"ground_truth": {"target": ["Oka"]}}})
    found = trajectory.em, trajectory.f1, trajectory.format_valid, trajectory.reward
    assert found == pytest.approx(expected)
    assert trajectory.success == trajectory.em
    assert trajectory.reward == sum(trajectory.reward_parts.values()) and list(trajectory.reward_parts) == [
        "em",
        "format",
    ]


@pytest.mark.parametrize(("scorer", "right"), [("gaia", 1.0), ("squad", 0.0), (None, 0.0)])
def test_reward_and_success_are_by_the_scorer_that_the_row_names(scorer, right) -> None:
    parts = {
        "em": {"weight": 1.0},
        "format": {"weight": 0.1},
        "three_part": {"weight": 1.0, **LENGTH, "cache_tokens": 9},
    }
    played = Trajectory("q", "search", "made", "How many?", ["17"], 1, [1], answer="17.0%", answer_blocks=1)
    row = {"reward_model": {"ground_truth": {"target": ["17"], "scorer": scorer}}, "extra_info": {"id": "q"}}
    environments.create(section(reward=parts)).score(played, row)
    assert (played.em, played.success) == (right, right)
    assert (played.reward_parts["em"], played.reward_parts["three_part_correct"]) == (right, pytest.approx(0.7 * right))
    assert played.reward_parts["format"] == pytest.approx(0.1 * (1 - right))


def test_a_scorer_that_is_none_is_named_with_its_row() -> None:
    row = {"reward_model": {"ground_truth": {"target": ["17"], "scorer": "gai"}}, "extra_info": {"id": "q7"}}
    with pytest.raises(
        InputError, match=r"row q7, reward_model.ground_truth.scorer: no scorer 'gai'; scorers are: squad,"
    ):
        environments.create(section()).score(Trajectory("q7", "search", "made", "?", ["17"], 1, [1]), row)


def turn(text: str = "<search> a </search>") -> Segment:
    return Segment("generated", text, [1])


def seen(*passages: str, text: str = "") -> Segment:
    return Segment("observation", text, [2], passage_ids=list(passages))


def worth(segments: list[Segment], gold=None, golden=("Oka",)) -> list[float]:
    trajectory = Trajectory("q", "search", "made", "Which river?", list(golden), 1, [1], segments=segments)
    trajectory.turns = sum(segment.kind == "generated" for segment in segments)
    row = {"extra_info": {"id": "q", "gold_passage_ids": gold}}
    return environments.turn_rewards(environments.create(section()), trajectory, row)


def test_a_turn_is_worth_the_gold_passages_that_it_showed_first() -> None:
    segments = [turn(), seen("p1", "x"), turn(), seen("p1", "p2", "p3"), turn(), seen("p2"), turn("answer")]
    assert worth(segments, ["p1", "p2", "p3", "p4"]) == [0.25, 0.5, 0.0, 0.0]
    assert worth(segments, ["p1", "p1"]) == [1.0, 0.0, 0.0, 0.0]
    # What a turn brought is not its own words, nor a notice's; and what was never shown counts nowhere.
    assert worth([Segment("notice", "p1", [3]), turn("p1"), Segment("notice", "p1", [3]), turn()], ["p1"]) == [0, 0]


def test_without_gold_passages_a_turn_is_worth_the_answer_that_it_showed_first() -> None:
    segments = [
        turn("Oka"),
        seen("x", text="An okapi."),
        turn(),
        seen("y", text="The Oka, a river."),
        turn(),
        seen(text="Oka"),
    ]
    for none in (None, []):
        assert worth(segments, none) == [0.0, 1.0, 0.0]
    assert worth([turn(), seen(text="There is no river.")], None, ["no"]) == [0.0]  # an answer that no passage says


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), max_size=5),
    st.sets(st.sampled_from("abcdef"), min_size=1),
)
def test_the_turns_of_an_episode_earn_the_share_of_gold_that_was_shown(shown, gold) -> None:
    earned = worth([segment for ids in shown for segment in (turn(), seen(*ids))], sorted(gold))
    assert len(earned) == len(shown) and all(0 <= one <= 1 for one in earned)
    assert sum(earned) == pytest.approx(len(gold & {one for ids in shown for one in ids}) / len(gold))


class Plain:
    name = "plain"


def test_an_environment_that_cannot_tell_pays_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Trajectory("q", "plain", "made", "?", ["a"], 1, [1], turns=3)
    assert environments.turn_rewards(Plain(), played, {}) == [0.0, 0.0, 0.0]
    assert environments.pays_turns(section())
    monkeypatch.setattr(environments, "_class", lambda name, where: Plain)
    assert not environments.pays_turns(section())
