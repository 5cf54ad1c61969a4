"""The arms of ablations: each differs from the profile in its own keys alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import params
from tasks.errors import InputError
from tasks.params import arms


def differences(one, other, key=""):
    """Dotted keys in which two resolved profiles differ."""
    for name in one.keys() | other.keys():
        mine, its, path = one.get(name), other.get(name), f"{key}.{name}".lstrip(".")
        if isinstance(mine, dict) and isinstance(its, dict):
            yield from differences(mine, its, path)
        elif mine != its:
            yield path


def resolved(name, seed=0):
    (arm,) = [one for one in arms.read([name]) if one.name == name]
    return params.resolve("tiny", arm.settings(seed))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("baseline", set()),
        ("no-mask", {"rl.mask_observations"}),
        ("format-only", {"environment.reward.format.weight"}),
        ("no-format", {"environment.reward.format"}),
        ("no-sft", {"sft.max_steps"}),
        ("unshuffled", {"ingest.shuffle", "validate.severity.order"}),
        ("dr_grpo", {"rl.algorithm", "rl.std_normalisation", "rl.aggregation"}),
        ("rloo", {"rl.algorithm", "rl.advantage", "rl.aggregation"}),
        ("turn-credit", {"rl.credit.level"}),
        ("keep-groups", {"rl.keep_groups"}),
        ("kl-loss", {"rl.kl.route"}),
    ],
)
def test_an_arm_differs_from_tiny_in_its_one_point(workspace, name, keys):
    tiny, arm = params.resolve("tiny"), resolved(name)
    assert set(differences(tiny, arm)) == keys
    assert arm["environment"]["reward"]["em"] == tiny["environment"]["reward"]["em"]


def test_every_arm_is_valid_and_says_what_it_teaches(workspace):
    names = arms.names()
    assert set(arms.CORE) <= set(names) and names[0] == "baseline"
    for arm in arms.read(names):
        found = params.resolve("tiny", arm.settings(7))
        assert found["seed"] == 7 and len(arm.teaches) > 20
        # An arm of an algorithm changes RL alone, so that all share what comes before it.
        if "algorithm" in arm.overlay.get("rl", {}):
            assert set(arm.overlay) == {"rl"}
    assert not set(names) & set(params.profiles())


def test_the_unshuffled_arm_is_validated_on_all_rows(workspace):
    # The first of them would be of few kinds.
    content = resolved("unshuffled")
    (source,) = content["ingest"]["sources"]
    assert content["rl"]["validation_questions"] == source["questions"]["validation"]


def test_the_baseline_comes_first_and_each_arm_once(workspace):
    assert [arm.name for arm in arms.read(["gspo", "dapo", "gspo"])] == ["baseline", "gspo", "dapo"]
    assert [arm.name for arm in arms.read(["dapo", "baseline"])] == ["baseline", "dapo"]
    # A selection needs the run that it selects from, and this the baseline's rows.
    assert [arm.name for arm in arms.read(["dapo", "random"])] == ["baseline", "few", "limr", "random", "dapo"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text() | st.integers(), children, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), JSON, max_size=4))
def test_settings_come_back_from_the_command_line(settings):
    assert params.parse_settings(arms.options(settings)) == settings


def test_settings_are_readable_on_the_command_line(workspace):
    assert arms.options({"seed": 0, "rl": {"algorithm": "dapo", "learning_rate": 1e-5}}) == [
        "seed=0",
        "rl={algorithm: dapo, learning_rate: 1.0e-05}",
    ]


def test_what_is_no_arm_is_refused(workspace):
    with pytest.raises(InputError, match="params/ablations: no arm 'dappo'; did you mean 'dapo'"):
        arms.read(["dappo"])
    with pytest.raises(InputError, match="no arm 'zzzzzz'; arms are: baseline, no-mask, "):
        arms.read(["zzzzzz"])
    file = workspace / "params/ablations/mine.yaml"
    file.write_text("rl: {steps: 3}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: the first line must begin with '# Teaches: '"):
        arms.read(["mine"])
    file.write_text("# Teaches: nothing.\nseed: 3\n")
    with pytest.raises(InputError, match="key 'seed': every arm is run with the same seeds; name them: --seeds"):
        arms.read(["mine"])
    file.write_text("# Teaches: nothing.\n- 3\n")
    with pytest.raises(InputError, match=r"mine\.yaml: the top level must be keys with values"):
        arms.read(["mine"])
