"""Values in Hydra's grammar, read back by the real Hydra."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tasks.training.overrides import flatten, hydra_overrides
from tasks.training.verl_schema import classes, tree

FREE = "actor_rollout_ref.rollout.custom.here"
TEXT = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "${" not in text and text != "???")
NAME = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_-]*\Z").filter(
    lambda name: name.lower() not in ("null", "true", "false", "nan", "inf")
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
VALUE = st.recursive(LEAF, lambda below: st.lists(below) | st.dictionaries(NAME, below), max_leaves=6)


def composed(overrides: list[str]) -> Any:
    with initialize_config_dir(str(classes.package() / "trainer" / "config"), version_base=None):
        return OmegaConf.to_container(compose("ppo_trainer", overrides))


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all through: 1, 1.0 and True are three values."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return all(same(one[key], other[key]) for key in one)
    return all(map(same, one, other)) if isinstance(one, list) else True


@settings(max_examples=12)  # a composition takes most of a second, so each tries many values
@given(st.lists(VALUE, min_size=30, max_size=60))
def test_every_value_reaches_verl_as_it_is(values):
    found = composed(hydra_overrides({}, {FREE: values}))["actor_rollout_ref"]["rollout"]["custom"]["here"]
    assert same(found, values)


@pytest.mark.parametrize(
    "value",
    [
        "a=b", "{a: 1}", "[1, 2]", "it's", 'a "quoted" word', "back\\slash", "ends with \\", "\\'", "", " ", "null",
        "true", "1e-5", "a,b", "a\nb", "$HOME", "#", "é", None, True, False, 0, -1, 1e-5, 1e300, 1.0, [],
        [None, [1, "a"]], [{"a": {"b": [1]}}],
    ],
)  # fmt: skip
def test_values_that_have_a_meaning_in_hydras_grammar_are_only_values(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (override,) = hydra_overrides({}, {"key": value})
    parsed = OverridesParser.create().parse_override(override)
    assert parsed.key_or_group == "key" and parsed.is_force_add()
    assert same(_plain(parsed.value()), value)


def _plain(value: Any) -> Any:
    from hydra.core.override_parser.types import QuotedString

    if isinstance(value, dict):
        return {str(_plain(key)): _plain(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    return value.text if isinstance(value, QuotedString) else value


def test_an_interpolation_stays_one():
    config = composed(hydra_overrides({}, {FREE: "${data.train_batch_size}"}))
    assert OmegaConf.create(config).actor_rollout_ref.rollout.custom.here == 1024


def test_the_users_settings_come_last_nested_or_dotted_and_add_what_the_yaml_lacks():
    own = {"trainer.test_freq": 3, "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa"}
    user = {
        "actor_rollout_ref.model": {"override_config.attn_implementation": "eager", "lora_rank": 8},
        "actor_rollout_ref": {"rollout": {"server.timeout": 5.5}},
    }
    config = composed(hydra_overrides(own, user))
    assert config["trainer"]["test_freq"] == 3
    model, rollout = config["actor_rollout_ref"]["model"], config["actor_rollout_ref"]["rollout"]
    assert model["override_config"] == {"attn_implementation": "eager"} and model["lora_rank"] == 8
    assert rollout["server"] == {"timeout": 5.5}
    assert "server" not in tree.tree("ppo_trainer").children["actor_rollout_ref"].children["rollout"].default


def test_an_empty_mapping_is_a_value():
    assert list(flatten({"a": {"b": {}, "c.d": 1}})) == [("a.b", {}), ("a.c.d", 1)]


@given(TEXT.filter(lambda text: text and "/" not in text and "\0" not in text and text not in (".", "..")))
def test_paths_of_any_characters_survive(name):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    path = Path("/tmp") / name
    (override,) = hydra_overrides({"data.train_files": path})
    assert _plain(OverridesParser.create().parse_override(override).value()) == str(path)
