"""Advantages by hand on fixed groups, and exactly nothing where nothing differs."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from tasks.training.estimators import grpo, reinforce_plus_plus, rloo, turn_grpo

OVER_GROUPS = [("forager_grpo", "grpo"), ("forager_rloo", "rloo")]
ALL = ["forager_grpo", "forager_rloo", "forager_reinforce_plus_plus", "forager_turn_grpo"]


def config(**changed: object):
    values = {"gamma": 1.0, "lam": 1.0, "norm_adv_by_std_in_grpo": True, "turn_weight": 0.5}
    return OmegaConf.create(values | changed)


def batch(rewards: list[float], *masks: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards at the last character of each mask, such as 1101; both padded to the longest."""
    width = max(map(len, masks))
    mask = torch.tensor([[int(one) for one in row.ljust(width, "0")] for row in masks])
    tokens = torch.zeros(len(masks), width)
    for row, (reward, text) in enumerate(zip(rewards, masks, strict=True)):
        tokens[row, len(text) - 1] = reward
    return tokens, mask


def groups(*names: str) -> np.ndarray:
    return np.array(names, dtype=object)


def verls(name: str, rewards: list[float], index: np.ndarray) -> torch.Tensor:
    tokens, mask = batch(rewards, *["11"] * len(rewards))
    return core_algos.get_adv_estimator_fn(name)(
        token_level_rewards=tokens, response_mask=mask, index=index, config=config()
    )[0]


def test_grpo_by_hand() -> None:
    tokens, mask = batch([1, 0, 0, 0, 1, 0], "11", "1", "101", "11", "1", "1")
    index = groups(*"aaaabb")
    # a: mean 1/4, deviation sqrt((9/16 + 3/16) / 3) = 1/2; b: mean 1/2, deviation sqrt((1/4 + 1/4) / 1) = .70711
    a, b = [1.5, -0.5], 0.5 / 0.70711
    expected = [[a[0], a[0], 0], [a[1], 0, 0], [a[1], 0, a[1]], [a[1], a[1], 0], [b, 0, 0], [-b, 0, 0]]
    advantages, returns = grpo(tokens, mask, index, config())
    torch.testing.assert_close(advantages, torch.tensor(expected), rtol=1e-4, atol=0)
    assert torch.equal(advantages, returns)


def test_dr_grpo_by_hand() -> None:
    tokens, mask = batch([1, 0, 0, 0], "11", "1", "101", "11")
    advantages, _ = grpo(tokens, mask, groups(*"aaaa"), config(norm_adv_by_std_in_grpo=False))
    expected = [[0.75, 0.75, 0], [-0.25, 0, 0], [-0.25, 0, -0.25], [-0.25, -0.25, 0]]
    torch.testing.assert_close(advantages, torch.tensor(expected))


def test_rloo_by_hand() -> None:
    tokens, mask = batch([1, 0, 0, 0.5], "11", "1", "101", "11")
    # 1 - (0 + 0 + .5) / 3; 0 - (1 + 0 + .5) / 3, twice; .5 - (1 + 0 + 0) / 3
    one, two, three = 1 - 0.5 / 3, -0.5, 0.5 - 1 / 3
    expected = [[one, one, 0], [two, 0, 0], [two, 0, two], [three, three, 0]]
    torch.testing.assert_close(rloo(tokens, mask, groups(*"aaaa"), config())[0], torch.tensor(expected))


@pytest.mark.parametrize(
    ("gamma", "returns", "expected"),
    [
        # mean 2/5, variance (2 x .6^2 + 3 x .4^2) / 4 = .3
        (1.0, [[1, 0, 1], [0, 0, 0]], [[0.6, 0, 0.6], [-0.4, -0.4, -0.4]]),
        # mean 1.5/5 = .3, variance (.2^2 + .7^2 + 3 x .3^2) / 4 = .2
        (0.5, [[0.5, 0, 1], [0, 0, 0]], [[0.2, 0, 0.7], [-0.3, -0.3, -0.3]]),
    ],
)
def test_reinforce_plus_plus_by_hand(gamma: float, returns: list, expected: list) -> None:
    tokens, mask = batch([1, 0], "101", "111")
    advantages, got = reinforce_plus_plus(tokens, mask, config=config(gamma=gamma))
    torch.testing.assert_close(got, torch.tensor(returns, dtype=torch.float))
    torch.testing.assert_close(advantages, torch.tensor(expected) / {1.0: 0.3, 0.5: 0.2}[gamma] ** 0.5)


def test_gae_by_hand() -> None:
    tokens, mask = batch([1, 0], "1101", "11")
    values = torch.tensor([[0.2, 0.4, 9, 0.5], [0.1, 0.3, 9, 9]])
    advantages, returns = core_algos.compute_gae_advantage_return(tokens, values, mask, 1.0, 1.0)
    # With gamma = lambda = 1 the return is what is still to come: 1 - .2, 1 - .4, 1 - .5, 0 - .1, 0 - .3
    raw = torch.tensor([[0.8, 0.6, 0, 0.5], [-0.1, -0.3, 0, 0]])
    torch.testing.assert_close((returns - values) * mask, raw)
    # mean 1.5/5 = .3, variance (.5^2 + .3^2 + .2^2 + .4^2 + .6^2) / 4 = .225
    torch.testing.assert_close(advantages * mask, (raw - 0.3) / 0.225**0.5 * mask)


def test_gae_skips_the_observation_when_it_discounts() -> None:
    tokens, mask = batch([1], "1101")
    values = torch.tensor([[0.2, 0.4, 9, 0.5]])
    _, returns = core_algos.compute_gae_advantage_return(tokens, values, mask, 0.5, 0.5)
    # last: 1 - .5 = .5; second: .5 x .5 - .4 = -.15, and .25 x .5 more; first: .5 x .4 - .2 = 0, and .25 x -.025 more
    torch.testing.assert_close((returns - values) * mask, torch.tensor([[-0.00625, -0.025, 0, 0.5]]))


@pytest.mark.parametrize("name", ["gae", "forager_reinforce_plus_plus"])
def test_a_reward_at_an_observation_is_lost_in_verls_recursions_so_a_response_ends_in_a_generated_token(name) -> None:
    def returns(*masks: str) -> torch.Tensor:
        tokens, mask = batch([1, 0], *masks)
        if name == "gae":
            return core_algos.compute_gae_advantage_return(tokens, torch.zeros_like(tokens), mask, 1.0, 1.0)[1] * mask
        return reinforce_plus_plus(tokens, mask, config=config())[1]

    # When this fails, tasks/agent/verl_loop.py need not cut off what nobody generated at a response's end.
    assert returns("110", "111")[0].tolist() == [0, 0, 0]
    assert returns("11", "111")[0].tolist() == [1, 1, 0]


def test_verls_padding_rows_change_no_advantage() -> None:
    """A group of its own without a token to train on (trainer/ppo/padding_utils.py:153)."""
    tokens, mask = batch([1, 0, 0, 0.5], "101", "11", "1", "101")
    index, padded = groups(*"aabb"), groups(*"aabb", "pad", "pad")
    for name in ALL:
        estimate = core_algos.get_adv_estimator_fn(name)
        alone, _ = estimate(token_level_rewards=tokens, response_mask=mask, index=index, config=config())
        wider = [torch.cat([one, torch.zeros_like(one[:2])]) for one in (tokens, mask)]
        got, _ = estimate(token_level_rewards=wider[0], response_mask=wider[1], index=padded, config=config())
        torch.testing.assert_close(got[:4], alone)
        assert torch.equal(got[4:], torch.zeros_like(got[4:]))


TURNS = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 1, 0], [1, 0, 1, 0, 1]])
TURN_REWARDS = torch.tensor([[0, 1.0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0.5, 0, 1]])


def test_turn_grpo_by_hand() -> None:
    # Outcomes 1, 0, 1: less their mean 1/3, -2/3, 1/3. First turns 1, 0, 1: the same, half of it on top.
    # The second turn before a last one is alone in its group: nothing on top.
    advantages, returns = turn_grpo(TURN_REWARDS, TURNS, groups(*"aaa"), config(norm_adv_by_std_in_grpo=False))
    expected = [[1 / 2, 1 / 2, 0, 1 / 3, 0], [-1, 0, 0, -2 / 3, 0], [1 / 2, 0, 1 / 3, 0, 1 / 3]]
    torch.testing.assert_close(advantages, torch.tensor(expected))
    assert torch.equal(advantages, returns)
    # Both are divided by the deviation of 1, 0, 1: sqrt((1/9 + 4/9 + 1/9) / 2) = sqrt(1/3)
    divided, _ = turn_grpo(TURN_REWARDS, TURNS, groups(*"aaa"), config())
    torch.testing.assert_close(divided, advantages * 3**0.5, rtol=1e-5, atol=0)


def test_turns_are_compared_within_their_question_alone() -> None:
    rewards, mask = TURN_REWARDS.repeat(2, 1), TURNS.repeat(2, 1)
    rewards[3:] *= 7
    together, _ = turn_grpo(rewards, mask, groups(*"aaabbb"), config(norm_adv_by_std_in_grpo=False))
    alone, _ = turn_grpo(TURN_REWARDS, TURNS, groups(*"aaa"), config(norm_adv_by_std_in_grpo=False))
    torch.testing.assert_close(together, torch.cat([alone, 7 * alone]))


def test_a_turn_with_a_worth_of_its_own_is_paid_where_all_fail() -> None:
    rewards = torch.tensor([[0, 1.0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    advantages, _ = turn_grpo(rewards, TURNS, groups(*"aaa"), config(norm_adv_by_std_in_grpo=False, turn_weight=1.0))
    # First turns 1, 0, 0: less their mean 2/3, -1/3, -1/3; outcomes are all 0.
    third = 1 / 3
    expected = [[2 * third, 2 * third, 0, 0, 0], [-third, 0, 0, 0, 0], [-third, 0, 0, 0, 0]]
    torch.testing.assert_close(advantages, torch.tensor(expected))


def test_what_is_kept_out_of_the_loss_still_counts_in_its_group() -> None:
    tokens, mask = batch([1, 0, 0], "101", "1", "00")
    for estimate in (grpo, turn_grpo):
        advantages, _ = estimate(tokens, mask, groups(*"aaa"), config(norm_adv_by_std_in_grpo=False))
        third = 1 / 3
        torch.testing.assert_close(advantages, torch.tensor([[2 * third, 0, 2 * third], [-third, 0, 0], [0.0, 0, 0]]))


def test_a_reward_at_a_token_that_nobody_generated_is_no_turns() -> None:
    tokens, mask = batch([1, 0], "110", "1")
    with pytest.raises(ValueError, match="a reward stands at a token that nobody generated"):
        turn_grpo(tokens, mask, groups(*"aa"), config())


# What verl makes of equal rewards; when one of these fails, the zeros of tasks/training/estimators.py may go.
@pytest.mark.parametrize(
    ("name", "rewards", "at_least"),
    [("grpo", [0.7] * 15, 0.1), ("grpo", [0.1] * 7, 0.007), ("rloo", [0.7] * 15, 1e-7),
     ("reinforce_plus_plus", [0.7] * 15, 1e-4)],
)  # fmt: skip
def test_verl_makes_an_advantage_of_rounding_and_ours_do_not(name: str, rewards: list, at_least: float) -> None:
    index = groups(*["a"] * len(rewards))
    assert verls(name, rewards, index).abs().max() > at_least
    ours = verls(f"forager_{name}", rewards, index)
    assert torch.equal(ours, torch.zeros_like(ours))


def test_verl_takes_its_own_grpo_without_its_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    # When this fails, ours could be registered under verl's names.
    monkeypatch.setitem(core_algos.ADV_ESTIMATOR_REGISTRY, "grpo", None)
    tokens, mask = batch([0.7] * 15, *["11"] * 15)
    data = DataProto.from_dict(
        tensors={"token_level_rewards": tokens, "response_mask": mask}, non_tensors={"uid": groups(*"a" * 15)}
    )
    assert compute_advantage(data, "grpo", config=config()).batch["advantages"].abs().max() > 0.1


@pytest.mark.parametrize("name", ALL)
def test_the_trainers_own_function_comes_to_ours(name: str) -> None:
    tokens, mask = batch([1, 0, 0.7, 0.7], "1101", "11", "1", "101")
    data = DataProto.from_dict(
        tensors={"token_level_rewards": tokens, "response_mask": mask}, non_tensors={"uid": groups(*"aabb")}
    )
    keys = ["a_0_0", "a_1_0", "b_0_0", "b_1_0"]
    got = compute_advantage_for_multi_trajectories(data, keys, adv_estimator=name, config=config()).batch["advantages"]
    assert got.shape == mask.shape
    assert bool((got[:2][mask[:2] == 1] != 0).all()) and torch.equal(got * mask, got)
    if name != "forager_reinforce_plus_plus":  # which knows no groups
        assert torch.equal(got[2:], torch.zeros_like(got[2:]))


def test_a_rollout_alone_has_nothing_to_be_compared_with() -> None:
    tokens, mask = batch([1, 1, 0], "11", "1", "1")
    for name in ("forager_grpo", "forager_rloo", "forager_turn_grpo"):
        advantages = core_algos.get_adv_estimator_fn(name)(
            token_level_rewards=tokens, response_mask=mask, index=groups(*"abb"), config=config()
        )[0]
        assert advantages[0].tolist() == [0, 0]
        assert advantages[1, 0] > 0 > advantages[2, 0]


# Of each group the reward of all its rollouts, their number, and the mask up to the last token.
drawn_group = st.tuples(st.floats(-3, 3, width=32), st.integers(1, 9), st.text("01", max_size=4))
drawn_masks = st.lists(st.text("01", max_size=12).map(lambda middle: middle + "1"), min_size=2, max_size=6)


@settings(max_examples=40)
@given(st.lists(drawn_group, min_size=1, max_size=5))
def test_where_nothing_differs_every_estimator_gives_exactly_nothing(drawn: list) -> None:
    rewards = [reward for reward, count, _ in drawn for _ in range(count)]
    masks = [middle + "1" for _, count, middle in drawn for _ in range(count)]
    index = groups(*[str(group) for group, (_, count, _) in enumerate(drawn) for _ in range(count)])
    tokens, mask = batch(rewards, *masks)
    for name in ("forager_grpo", "forager_rloo", "forager_turn_grpo"):
        for divided in (True, False):
            advantages = core_algos.get_adv_estimator_fn(name)(
                token_level_rewards=tokens,
                response_mask=mask,
                index=index,
                config=config(norm_adv_by_std_in_grpo=divided),
            )[0]
            assert torch.equal(advantages, torch.zeros_like(advantages))


@given(st.floats(-3, 3, width=32), st.integers(2, 20))
def test_a_batch_of_equal_rewards_gives_reinforce_plus_plus_nothing(reward: float, count: int) -> None:
    tokens, mask = batch([reward] * count, *["101"] * count)
    advantages, _ = reinforce_plus_plus(tokens, mask, config=config())
    assert torch.equal(advantages, torch.zeros_like(advantages))


@given(st.lists(st.lists(st.sampled_from([0.0, 0.1, 0.35, 1.0, 1.1]), min_size=2, max_size=8), min_size=1, max_size=4))
def test_where_rewards_differ_ours_are_verls_to_the_bit(drawn: list[list[float]]) -> None:
    rewards = [reward for group in drawn for reward in group]
    index = groups(*[str(number) for number, group in enumerate(drawn) for _ in group])
    differs = torch.tensor([len(set(group)) > 1 for group in drawn for _ in group])
    for ours, theirs in OVER_GROUPS:
        got, whole = verls(ours, rewards, index), verls(theirs, rewards, index)
        assert torch.equal(got[differs], whole[differs])
        assert torch.equal(got[~differs], torch.zeros_like(got[~differs]))


@settings(max_examples=40)
@given(drawn_masks, st.data())
def test_without_worth_of_their_own_turns_change_nothing(masks: list[str], data: st.DataObject) -> None:
    rewards = data.draw(st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=len(masks), max_size=len(masks)))
    tokens, mask = batch(rewards, *masks)
    index = groups(*["a"] * len(masks))
    torch.testing.assert_close(turn_grpo(tokens, mask, index, config())[0], grpo(tokens, mask, index, config())[0])


@pytest.mark.parametrize("estimate", [grpo, rloo])
def test_a_difference_of_rounding_is_none_and_a_small_reward_is_one(estimate: Callable[..., tuple]) -> None:
    for gap, differs in ((1e-7, False), (1e-3, True)):
        tokens, mask = batch([1.0, 1.0 + gap], "1", "1")
        assert bool(estimate(tokens, mask, groups(*"aa"), config())[0].any()) is differs
