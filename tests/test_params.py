import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks import params
from tasks.errors import InputError


def overlay_file(root, text):
    (root / "params/mine.yaml").write_text(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rl: {stepz: 3}", ["params/mine.yaml", "rl.stepz", "did you mean 'steps'"]),
        ("rll: {steps: 3}", ["rll", "did you mean 'rl'"]),
        ("rl: {steps: many}", ["rl.steps", "'many'"]),
        ("rl: {steps: 0}", ["rl.steps", "0"]),
        ("rl: {steps: 3}", ["rl.validate_every"]),
        ("seed: 1.5", ["seed"]),
        ("rl: [", ["mine.yaml, line 1", "YAML"]),
        ("- a", ["top level"]),
        ("environment: {name: serch}", ["serch"]),
        ("environment: {em_scor: 1.0}", ["em_scor"]),
    ],
)
def test_wrong_overlay_is_refused_with_its_place(workspace, text, words):
    overlay_file(workspace, text)
    with pytest.raises(InputError) as caught:
        params.resolve("mine")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_every_profile_of_the_project_is_valid(workspace):
    assert "tiny" in params.profiles()
    for profile in params.profiles():
        assert params.resolve(profile)["profile"] == profile


def test_stage_resolves_and_load_reads_it(workspace):
    overlay_file(workspace, "rl: {steps: 7}")
    params.use_profile("mine")
    done = subprocess.run([sys.executable, "-m", "tasks.params"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = params.load()
    assert (loaded.profile, loaded.rl.steps) == ("mine", 7)
    assert loaded.sft.batch_size == yaml.safe_load(params.DEFAULTS.read_text())["sft"]["batch_size"]


def test_use_profile_touches_the_file_only_on_a_change(workspace):
    overlay_file(workspace, "")
    params.use_profile("mine")
    before = params.PROFILE.stat().st_mtime_ns
    params.use_profile("mine")
    assert params.PROFILE.stat().st_mtime_ns == before


def test_unknown_profile_leaves_the_present_one_in_force(workspace):
    before = params.PROFILE.read_text()
    with pytest.raises(InputError, match="no profile"):
        params.use_profile("absent")
    assert params.PROFILE.read_text() == before


TREES = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2),
    lambda children: st.dictionaries(st.sampled_from("abc"), children, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), TREES, max_size=3)


@given(MAPPINGS, MAPPINGS)
def test_overlay_wins_key_by_key(base, top):
    merged = params.overlay(base, top)
    assert set(merged) == set(base) | set(top)
    for key, value in merged.items():
        if key not in top:
            assert value == base[key]
        elif isinstance(top[key], dict) and isinstance(base.get(key), dict):
            assert value == params.overlay(base[key], top[key])
        else:
            assert value == top[key]
    assert params.overlay(merged, top) == merged
