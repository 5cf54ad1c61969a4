"""Profiles: how they lie over one another, and which is in force."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks import params
from tasks.errors import InputError


def overlay_file(root, text):
    (root / "params/mine.yaml").write_text(text)


def test_every_profile_of_the_project_is_valid(workspace):
    assert "tiny" in params.profiles()
    for profile in params.profiles():
        assert params.resolve(profile)["profile"] == profile


def test_a_profile_lies_over_those_it_extends(workspace):
    tiny = params.resolve("tiny")
    (workspace / "params/low.yaml").write_text("rl: {steps: 7, prompts: 4}\nepisode: {max_turns: 2}")
    (workspace / "params/middle.yaml").write_text("extends: low\nrl: {prompts: 8, samples: 4}")
    overlay_file(workspace, "extends: middle\nrl: {samples: 2}")
    found = params.resolve("mine")
    assert (found["rl"]["steps"], found["rl"]["prompts"], found["rl"]["samples"]) == (7, 8, 2)
    assert found["episode"]["max_turns"] == 2
    assert found["profile"] == "mine" and "extends" not in found
    assert found["episode"]["prompt"] != tiny["episode"]["prompt"]  # it is no part of this


def test_an_error_names_every_file_that_was_laid_over_another(workspace):
    (workspace / "params/low.yaml").write_text("rl: {stepz: 7}")
    overlay_file(workspace, "extends: low\nseed: 1")
    with pytest.raises(InputError) as caught:
        params.resolve("mine")
    files = ("mine", "low", "presets/algorithms/grpo", "defaults")
    assert str(caught.value).startswith(" over ".join(f"params/{name}.yaml" for name in files) + ": ")


def test_a_preset_of_the_gate_lies_over_the_defaults_and_under_every_profile(workspace):
    defaults = yaml.safe_load(params.DEFAULTS.read_text())["gate"]["checks"]
    preset = yaml.safe_load(Path("params/presets/production.yaml").read_text())["gate"]["checks"]
    own = {"expression": "rl.steps > 7", "severity": "warning"}
    (workspace / "params/low.yaml").write_text(
        yaml.safe_dump({"gate": {"preset": "production", "checks": {"signal": own, "exact-match": own}}})
    )
    overlay_file(workspace, "extends: low\ngate: {checks: {kl: null, exact-match: {severity: error}, ability: null}}")
    found = params.resolve("mine")["gate"]["checks"]
    assert (found["signal"], found["exact-match"]) == (own, {**own, "severity": "error"})
    assert found["kl"] is None and found["ability"] is None
    for name in preset.keys() - {"signal", "exact-match", "kl", "ability"}:
        assert found[name] == preset[name]
    for name in defaults.keys() - preset.keys():
        assert found[name] == defaults[name]
    overlay_file(workspace, "extends: low\ngate: {preset: null}")
    assert params.resolve("mine")["gate"]["checks"] == {**defaults, "signal": own, "exact-match": own}
    assert "production" not in params.profiles()


def test_profiles_that_extend_each_other_are_refused(workspace):
    (workspace / "params/a.yaml").write_text("extends: b")
    (workspace / "params/b.yaml").write_text("extends: a")
    overlay_file(workspace, "extends: a")
    with pytest.raises(InputError, match=r"params/b\.yaml, extends: extends itself: mine > a > b > a"):
        params.resolve("mine")


def test_the_reduced_profile_of_the_whole_dags_test_is_valid(workspace):
    shutil.copy(Path(__file__).parents[1] / "e2e/reduced.yaml", "params")
    assert params.resolve("reduced")["profile"] == "reduced"
    assert yaml.safe_load(Path("params/reduced.yaml").read_text())["extends"] == "tiny"


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
