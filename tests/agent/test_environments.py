import pytest

from tasks.agent import environments
from tasks.agent.prompts import Template
from tasks.agent.trajectory import Trajectory
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
