"""Parameters that are refused, each with its place and how to mend it."""

import importlib
import re
from typing import get_args

import pytest
import yaml

from tasks import params
from tasks.agent import interactions
from tasks.agent.protocols import PROTOCOLS
from tasks.agent.toolbox import known_tools
from tasks.agent.trajectory import StopReason
from tasks.errors import InputError

# Those of the defaults that reject.
ERRORS = (
    "exact-match", "gain-over-sft", "format", "searches", "merge-parity", "no-leakage", "recall", "mrr", "findable",
)  # fmt: skip


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
        ("rl: {temperature: 0}", ["rl.temperature", "greater than 0"]),
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
            yaml.safe_dump({"gate": {"checks": dict.fromkeys(ERRORS)}}),
            ["gate", "none of severity error is left", "released"],
        ),
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
        (
            {
                "rl": {"soft_overlong": {}},
                "environment": {"reward": {"soft_overlong": {"weight": 0.2, "max_tokens": 99, "cache_tokens": 64}}},
            },
            "rl.soft_overlong: environment.reward.soft_overlong is set too; set one of them to null",
        ),
        (
            {"rl": {"credit": {"level": "turn"}}, "episode": {"max_turns": 1}},
            "rl.credit.level: the last turn has no reward of its own; set trajectory, or episode.max_turns: 2 or more",
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
    layers = "params/mine.yaml over params/presets/algorithms/grpo.yaml over params/defaults.yaml"
    assert str(caught.value).startswith(f"{layers}: {line}")


def test_an_environment_that_cannot_tell_what_a_turn_was_worth_pays_none(workspace, monkeypatch):
    monkeypatch.setattr("tasks.params.playing.pays_turns", lambda section: False)
    overlay_file(workspace, "rl: {credit: {level: turn}}")
    with pytest.raises(
        InputError, match=r"rl.credit.level: environment search cannot tell what a turn was worth; set "
    ):
        params.resolve("mine")


def test_a_part_of_the_reward_is_added_to_an_environment_that_has_it(workspace, monkeypatch):
    monkeypatch.setattr("tasks.params.playing.RewardParams", type("Other", (), {}))
    overlay_file(workspace, "rl: {soft_overlong: {}}")
    with pytest.raises(InputError, match=r"rl.soft_overlong: environment search has no such reward; set it to null"):
        params.resolve("mine")


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
        {"rl": {"soft_overlong": {"weight": 0.5}, "credit": {"level": "turn"}}},
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


@pytest.mark.parametrize("key", ["profile", "extends"])
def test_a_setting_chooses_no_profile(workspace, key):
    with pytest.raises(InputError, match=rf"--set: {key} is no parameter; choose a profile: --profile NAME"):
        params.resolve("tiny", {key: "hotpotqa-smollm2-cpu"})
    params.PROFILE.write_text(f"profile: tiny\nset: {{{key}: tiny}}\n")
    with pytest.raises(InputError, match=f"{key} is no parameter"):
        params.resolve_in_force()
