import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks import params
from tasks.agent import interactions
from tasks.agent.protocols import PROTOCOLS
from tasks.agent.toolbox import known_tools
from tasks.agent.trajectory import StopReason
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
        (
            phases("{text: repeats, steps: 1, sequence_length: 8, foo: 1}"),
            ["phases.0.foo", "its keys are: text, "],
        ),
        (phases("{text: repeats, stepz: 1, sequence_length: 8}"), ["phases.0.stepz' (and 1 more)", "mean 'steps'"]),
        (phases("{text: repeats, steps: 1, sequence_length: 8, step: 1}"), ["phases.0.step'", "did you mean 'steps'"]),
        (phases("{text: repeats, sequence_length: 8}"), ["phases.0.steps' is missing", "name it there"]),
        (source("{reader: jsonl, name: a, pathh: b, path: b, split: test}"), ["sources.0.pathh'", "mean 'path'"]),
        (source("{reader: jsonl, name: a, split: test}"), ["'ingest.sources.0.path' is missing", "in this item"]),
        (source("{reader: world, peeple: 1}"), ["ingest.sources.0.peeple' (and 3 more)", "mean 'people'"]),
        (source("{reader: excel}"), ["ingest.sources.0", "'excel'"]),
        ("gate: {checks: {exact-match: {sevrity: error}}}", ["gate.checks.exact-match.sevrity'", "mean 'severity'"]),
        ("gate: {checks: {mine: {severity: error}}}", ["gate.checks.mine.expression' is missing", "name it there"]),
        ("gate: {preset: prodution}", ["gate.preset", "'production'", "'prodution'"]),
        ("gate: {preset: [production]}", ["gate.preset", "'production'"]),
        (
            "gate: {checks: {mine: {expression: retrieval.k > 1, severity: error}}}",
            [
                "gate.checks.mine: 'retrieval.k > 1', column 1: the gate reads no stage 'retrieval'",
                "use one of ingest,",
            ],
        ),
        ("gate: {half_width: 0.001}", ["gate.half_width", "questions at least", "evaluate.questions is 300"]),
        ("gate: {half_width: 1.0}", ["gate.half_width", "less than 1"]),
        ("environment: {name: serch}", ["serch"]),
        ("environment: {em_score: 1.0}", ["unknown key 'environment.em_score'", "its keys are: reward"]),
        ("environment: {reward: {em: {wieght: 1.0}}}", ["environment.reward.em.wieght", "did you mean 'weight'"]),
        ("environment: {reward: {em: null}}", ["environment.reward: nothing pays a right answer", "em, f1, cover_em"]),
        (
            'episode: {prompt: {system: a, user: "{question}", usr: b}}',
            ["unknown key 'episode.prompt.usr'; did you mean 'user'"],
        ),
        (
            'episode: {prompt: {system: a, user: "{question}", zzz: b}}',
            ["unknown key 'episode.prompt.zzz'; its keys are: system, user"],
        ),
        ("episode: {prompt: {system: a}}", ["key 'episode.prompt.user' is missing; name it there"]),
        ("episode: {prompt: {system: a, user: 3}}", ["episode.prompt.user: ", "valid string, got 3"]),
        ("episode: {prompt: 3}", ["episode.prompt: ", "valid string, got 3"]),
        ("ingest: {corpus: {path: a.jsonl}}", ["key 'ingest.corpus.reader' is missing; name it there"]),
        (
            "environment: {reward: {repeated_queries: {weight: 0.1}}}",
            ["key 'environment.reward.repeated_queries.threshold' is missing; name it there"],
        ),
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


PROMPT = "Question: {question}"


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"tools": {"names": ["serach"]}}, "tools.names: no tool 'serach'; did you mean 'search'?"),
        ({"tools": {"names": ["zzz"], "server": "start"}}, "tools.names: no tool 'zzz'; tools are: search"),
        ({"tools": {"names": ["search", "search"]}}, "tools.names: 'search' is named twice"),
        (
            {"tools": {"names": ["two words"], "server": "http://127.0.0.1:1"}},
            "tools.names: 'two words' cannot be a tool's name; name identifiers, not a tag",
        ),
        (
            {"tools": {"names": ["Answer"], "server": "http://127.0.0.1:1"}},
            "tools.names: 'Answer' cannot be a tool's name; name identifiers, not a tag",
        ),
        (
            {"tools": {"names": ["theirs"], "server": "http://127.0.0.1:1"}, "episode": {"protocol": "hermes"}},
            "tools.names: no tool 'theirs'; tools are: search",
        ),
        (
            {"tools": {"names": ["theirs"], "server": "http://h"}, "episode": {"prompt": "{tools} {question}"}},
            "tools.names: no tool 'theirs'; tools are: search",
        ),
        (
            {"episode": {"interaction": "second_tri"}},
            "episode.interaction: no interaction 'second_tri'; did you mean 'second_try'?",
        ),
        ({"episode": {"interaction": "zz"}}, "episode.interaction: no interaction 'zz'; interactions are: second_try"),
        ({"episode": {"protocol": "serch-r1"}}, "episode.protocol: no protocol 'serch-r1'; did you mean 'search-r1'?"),
        (
            {"episode": {"protocol": "zzz"}},
            "episode.protocol: no protocol 'zzz'; protocols are: search-r1, research, hermes, qwen3_coder",
        ),
        (
            {"episode": {"prompt": "Question:"}},
            "episode.prompt: must hold {question}, or the policy would never see one",
        ),
        (
            {"episode": {"prompt": {"system": PROMPT, "user": "Go."}}},
            "episode.prompt: must hold {question}, or the policy would never see one",
        ),
        *(
            (
                {"episode": {"prompt": f"{{{wrong}}} {PROMPT}"}},
                f"episode.prompt: {{{wrong}}} is no placeholder; did you mean {{{right}}}?",
            )
            for wrong, right in (
                ("tool", "tools"), ("Tools", "tools"), ("questions", "question"), ("examples", "example"),
                (" question ", "question"),
            )
        ),
        (
            {"episode": {"prompt": "Question: {Question}"}},
            "episode.prompt: {Question} is no placeholder; did you mean {question}?",
        ),
        (
            {"episode": {"prompt": f"{{example}} {PROMPT}", "example_answer": " "}},
            "episode.example_answer: is empty; null shows none",
        ),
        *(
            (
                {"episode": {"protocol": protocol, "prompt": f"{{example}} {PROMPT}", "example_answer": example}},
                f"episode.example_answer: {example!r} holds a tag or a mark of protocol {protocol}, "
                "which is put round it; give the answer alone",
            )
            for protocol, example in (
                ("search-r1", "<answer> Rove </answer>"), ("search-r1", "Rove<|im_end|>"), ("research", "Rove [1]"),
                ("hermes", "</tool_call>"),
            )
        ),
        (
            {"episode": {"max_turn_tokens": 1025}},
            "episode.max_turn_tokens: 1025 is more than the whole of episode.max_response_tokens, 1024",
        ),
        ({"episode": {"max_observation_tokens": 0}}, "episode.max_observation_tokens: Input should be greater than 0"),
        (
            {"rl": {"deadline_seconds": 9.5}},
            "rl.deadline_seconds: 9.5 is less than one call may take, episode.tool_seconds: 10",
        ),
        (
            {"rl": {"no_loss_on": ["answer"]}},
            "rl.no_loss_on: without the episodes that answer, no right answer would ever be trained on",
        ),
        ({"rl": {"no_loss_on": ["lenght"]}}, "rl.no_loss_on: no episode ends by 'lenght'; did you mean 'length'?"),
        (
            {"environment": {"reward": {"citation_precision": {"weight": 0.2}}}},
            "environment.reward.citation_precision: protocol search-r1 has no citations; "
            "set episode.protocol: research, or leave it out",
        ),
        *(
            (
                {"environment": {"reward": {part: {"weight": 0.2, "max_tokens": 1025, "cache_tokens": 64}}}},
                f"environment.reward.{part}.max_tokens: 1025 can never be reached, since an episode ends at "
                "episode.max_response_tokens: 1024",
            )
            for part in ("soft_overlong", "three_part")
        ),
    ],
)  # fmt: skip
def test_what_no_episode_could_be_played_with_is_refused(workspace, monkeypatch, sections, line):
    # Other tests of the same process may have registered tools of their own.
    own = {name: tool for name, tool in known_tools().items() if tool.__module__.startswith("tasks.agent.tools.")}
    monkeypatch.setattr("tasks.agent.toolbox.base._tools", own)
    overlay_file(workspace, yaml.safe_dump(sections))
    with pytest.raises(InputError) as caught:
        params.resolve("mine")
    assert str(caught.value).startswith(f"params/mine.yaml over params/defaults.yaml: {line}")


@pytest.mark.parametrize(
    "sections",
    [
        {"tools": {"names": ["search", "theirs"], "server": "http://127.0.0.1:1"}},
        {"episode": {"prompt": f'{{"name": 3}} {{tooltip}} {{sample}} {{}} {PROMPT}'}},
        {"episode": {"prompt": f"{{example}} {PROMPT}", "example_answer": "a < b [1]"}},
        {"episode": {"max_turn_tokens": 1024, "interaction": "second_try", "tool_seconds": 600}},
        {"rl": {"no_loss_on": [reason for reason in get_args(StopReason) if reason != "answer"]}},
        {"environment": {"reward": {"soft_overlong": {"weight": 0.2, "max_tokens": 1024, "cache_tokens": 64}}}},
        {"episode": {"protocol": "research"}, "environment": {"reward": {"citation_precision": {"weight": 0.2}}}},
        *({"episode": {"protocol": protocol}} for protocol in PROTOCOLS),
    ],
)
def test_what_episodes_can_be_played_with_is_taken(workspace, sections):
    overlay_file(workspace, yaml.safe_dump(sections))
    assert params.resolve("mine")["profile"] == "mine"


@pytest.mark.parametrize(
    ("address", "valid"),
    [
        ("start", True),
        ("http://127.0.0.1:5500", True),
        ("https://tools.example.org/base/", True),
        ("http://[::1]:5500", True),
        ("http:// x", False),
        ("http://a b", False),
        ("http://", False),
        ("http://:5500", False),
        ("http://[", False),
        ("http://h:99999", False),
        ("http://h:port", False),
        ("http://h:0", False),
        ("http://h?a=b", False),
        ("ftp://h", False),
        ("127.0.0.1:5500", False),
        ("stop", False),
        ("", False),
    ],
)
def test_a_tool_server_is_named_by_an_address(workspace, address, valid):
    overlay_file(workspace, yaml.safe_dump({"tools": {"server": address}}))
    if valid:
        assert params.resolve("mine")["tools"]["server"] == address
    else:
        with pytest.raises(
            InputError, match=rf"tools\.server: {re.escape(repr(address))} is no address; name one such"
        ):
            params.resolve("mine")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nraise RuntimeError('no licence')", "line 2: cannot be imported: RuntimeError: no licence; mend the file"),
        ("import a_module_that_is_missing", "line 1: cannot be imported: ModuleNotFoundError: No module named 'a_mod"),
        ("x = 1\ndef", "line 2: cannot be imported: SyntaxError: "),
    ],
)
@pytest.mark.parametrize("folder", ["tools", "interactions"])
def test_a_users_file_that_cannot_be_imported_is_named(workspace, monkeypatch, folder, text, said):
    package = importlib.import_module(f"tasks.agent.{folder}")
    place = workspace / "tasks/agent" / folder
    place.mkdir(parents=True)
    (place / "broken.py").write_text(text)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(place)])
    overlay_file(workspace, "episode: {interaction: broken}" if folder == "interactions" else "")
    with pytest.raises(InputError) as caught:
        params.resolve("mine")
    assert str(caught.value).startswith(f"tasks/agent/{folder}/broken.py, {said}")


def test_an_interactions_file_without_its_class_is_refused(workspace, monkeypatch):
    (workspace / "empty_user.py").write_text("")
    monkeypatch.setattr(interactions, "__path__", [*interactions.__path__, str(workspace)])
    overlay_file(workspace, "episode: {interaction: empty_user}")
    with pytest.raises(InputError, match=r"episode\.interaction: the file of 'empty_user' holds no class Interaction"):
        params.resolve("mine")


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
