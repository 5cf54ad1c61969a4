"""Every key of the parameters that an episode has arrives in the episode."""

from typing import Any

import pytest

from tasks.agent.interactions.second_try import Interaction
from tasks.agent.setup import open_setup
from tasks.params import Playing


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, build_index: Any) -> Any:
    folder = tmp_path_factory.mktemp("index") / "index"
    return build_index(folder, [("p1", "Kashi", "Kashi was born in Rove.", None)])


def test_no_key_is_dead(defaults: Any, tokenizer: Any, index: Any) -> None:
    changed = {
        "max_turns": 7, "max_response_tokens": 501, "max_turn_tokens": 41, "max_observation_tokens": 61,
        "force_answer": True, "correct_invalid": True, "max_repeats": 5, "max_user_turns": 2,
    }  # fmt: skip
    others = {
        "protocol": "research", "tool_seconds": 3.5, "max_parallel_calls": 6, "interaction": "second_try",
        "example_answer": "Beijing",
    }  # fmt: skip
    told_elsewhere = {"prompt", "max_prompt_tokens"}  # ingest and validate
    episode = defaults.episode.model_copy(update={**changed, **others})
    assert {*changed, *others, *told_elsewhere} == set(type(episode).model_fields)
    assert all(getattr(defaults.episode, name) != value for name, value in {**changed, **others}.items())
    setup = open_setup(
        Playing.of(defaults.model_copy(update={"episode": episode})),
        index=index,
        tokenizer=tokenizer,
        deadline_seconds=12.5,
        fallback_reward=-0.5,
    )
    assert {name: getattr(setup.budget, name) for name in changed} == changed
    assert (setup.budget.deadline_seconds, setup.budget.fallback_reward, setup.budget.user_seconds) == (12.5, -0.5, 3.5)
    assert setup.protocol.name == "research" and setup.example_answer == "Beijing"
    assert isinstance(setup.interaction, Interaction)
    limits = setup.tools._limits
    assert (limits.seconds, limits.parallel) == (3.5, 6)
