import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards import group_signal, groups_without_signal

REWARDS = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=9)


def test_the_published_group_has_the_samples_deviation() -> None:
    # mean .3; squares .04 + .49 + .09 + .04 = .66; / 3 = .22; root .469. Published with .42, which is neither this
    # nor the population's .406.
    signal = group_signal([0.1, 1.0, 0.0, 0.1])
    assert signal.mean == pytest.approx(0.3) and signal.informative
    assert signal.std == pytest.approx(0.22**0.5) == pytest.approx(0.469, abs=5e-4)


@given(st.lists(st.floats(-2, 2, width=16), min_size=2, max_size=9))
def test_the_deviation_is_that_of_torch(rewards: list[float]) -> None:
    torch = pytest.importorskip("torch")
    assert group_signal(rewards).std == pytest.approx(float(torch.std(torch.tensor(rewards))), abs=1e-5)


@pytest.mark.parametrize(
    ("rewards", "informative"),
    [
        ([0.1] * 8, False),
        ([1.0] * 8, False),
        ([0.1, 0.1, 0.3 - 0.2], False),  # 0.3 - 0.2 is 0.09999999999999998
        ([0.1] * 7 + [0.2 / 2, 0.1 + 1e-9], False),
        ([0.7], False),
        ([0.1, 0.1001], True),
        ([0.0, 0.025], True),
    ],
)
def test_equal_rewards_are_without_signal(rewards: list[float], informative: bool) -> None:
    assert group_signal(rewards).informative is informative


@given(REWARDS)
def test_a_group_is_informative_just_when_two_rewards_differ(rewards: list[float]) -> None:
    assert group_signal(rewards).informative == (len(set(rewards)) > 1)


def test_share_of_a_steps_groups() -> None:
    step = {"a": [0.1] * 4, "b": [0.1, 1.0, 0.0, 0.1], "c": [1.0] * 4, "d": [0.0] * 4}
    assert groups_without_signal(step) == 0.75
    assert groups_without_signal({("q", 1): [0.0, 1.0]}) == 0.0


def test_nothing_has_no_signal_to_speak_of() -> None:
    with pytest.raises(ValueError, match="without rewards"):
        group_signal([])
    with pytest.raises(ValueError, match="without groups"):
        groups_without_signal({})
