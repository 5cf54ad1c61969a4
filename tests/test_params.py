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


def phases(item):
    return f"policy: {{pretraining: {{phases: [{item}]}}}}"


def source(item):
    return f"ingest: {{sources: [{item}]}}"


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
        (phases("{text: repeats, steps: 1, sequence_length: 8, foo: 1}"), ["phases.0.foo", "see params/defaults.yaml"]),
        (phases("{text: repeats, stepz: 1, sequence_length: 8}"), ["phases.0.stepz' (and 1 more)", "mean 'steps'"]),
        (phases("{text: repeats, steps: 1, sequence_length: 8, step: 1}"), ["phases.0.step'", "did you mean 'steps'"]),
        (phases("{text: repeats, sequence_length: 8}"), ["phases.0.steps' is missing", "name it in this item"]),
        (source("{reader: jsonl, name: a, pathh: b, path: b, split: test}"), ["sources.0.pathh'", "mean 'path'"]),
        (source("{reader: jsonl, name: a, split: test}"), ["'ingest.sources.0.path' is missing", "in this item"]),
        (source("{reader: world, peeple: 1}"), ["ingest.sources.0.peeple' (and 3 more)", "mean 'people'"]),
        (source("{reader: excel}"), ["ingest.sources.0", "'excel'"]),
        ("gate: {checks: {exact-match: {sevrity: error}}}", ["gate.checks.exact-match.sevrity'", "mean 'severity'"]),
        ("gate: {checks: {mine: {severity: error}}}", ["gate.checks.mine.expression' is missing", "in this item"]),
        ("environment: {name: serch}", ["serch"]),
        ("environment: {em_score: 1.0}", ["unknown key 'environment.em_score'", "its keys are: reward"]),
        ("environment: {reward: {em: {wieght: 1.0}}}", ["environment.reward.em.wieght", "did you mean 'weight'"]),
        ("environment: {reward: {em: null}}", ["environment.reward: nothing pays a right answer", "em, f1, cover_em"]),
        ("sft: {max_steps: 5}", ["sft.check_every"]),
        ("sft: {max_steps: -1}", ["sft.max_steps"]),
        ("profile: other", ["mine.yaml", "unknown key 'profile'"]),
        ("extends: tinny", ["params/mine.yaml, extends", "no profile 'tinny'", "tiny"]),
        ("extends: [tiny]", ["params/mine.yaml, extends", "must be the name of one profile", "['tiny']"]),
        ("extends: mine", ["params/mine.yaml, extends", "extends itself: mine > mine"]),
        ("extends: {name: tiny}", ["params/mine.yaml, extends", "must be the name of one profile"]),
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
    assert str(caught.value).startswith("params/mine.yaml over params/low.yaml over params/defaults.yaml: ")


def test_profiles_that_extend_each_other_are_refused(workspace):
    (workspace / "params/a.yaml").write_text("extends: b")
    (workspace / "params/b.yaml").write_text("extends: a")
    overlay_file(workspace, "extends: a")
    with pytest.raises(InputError, match=r"params/b\.yaml, extends: extends itself: mine > a > b > a"):
        params.resolve("mine")


def differences(one, other, key=""):
    """Dotted keys in which two resolved profiles differ."""
    for name in one.keys() | other.keys():
        mine, its, path = one.get(name), other.get(name), f"{key}.{name}".lstrip(".")
        if isinstance(mine, dict) and isinstance(its, dict):
            yield from differences(mine, its, path)
        elif mine != its:
            yield path


@pytest.mark.parametrize(
    ("profile", "keys"),
    [
        ("format-only", {"environment.reward.format.weight"}),
        ("no-mask", {"rl.mask_observations"}),
        ("no-sft", {"sft.max_steps"}),
        ("unshuffled", {"ingest.shuffle", "validate.severity.order"}),
    ],
)
def test_a_contrast_differs_from_tiny_in_its_one_point(workspace, profile, keys):
    tiny, contrast = params.resolve("tiny"), params.resolve(f"contrast-{profile}")
    assert set(differences(tiny, contrast)) == keys | {"profile"}
    assert contrast["environment"]["reward"]["em"] == tiny["environment"]["reward"]["em"]


def test_the_unshuffled_contrast_is_validated_on_all_rows(workspace):
    # The first of them would be of few kinds.
    content = params.resolve("contrast-unshuffled")
    (source,) = content["ingest"]["sources"]
    assert content["rl"]["validation_questions"] == source["questions"]["validation"]


def test_the_reduced_profile_of_the_whole_dags_test_is_valid(workspace):
    shutil.copy(Path(__file__).parent / "e2e/reduced.yaml", "params")
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
