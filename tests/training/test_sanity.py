import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasks.agent.trajectory import Segment, Trajectory
from tasks.training import sanity
from tasks.training.sanity import SanityCheck, compare_with_transformers


@pytest.fixture(scope="module")
def model(make_model) -> Path:
    return make_model(seed=1)


@pytest.fixture(scope="module")
def greedy(model: Path) -> Trajectory:
    """A greedy episode of two turns with an observation between them, with right log-probabilities."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype="auto").eval()
    ids = [5, 6, 7]
    segments = []
    for turn in range(2):
        tokens, logprobs = [], []
        for _ in range(4):
            with torch.no_grad():
                logits = network(input_ids=torch.tensor([ids])).logits[0, -1].float()
            token = int(logits.argmax())
            logprobs.append(float(torch.log_softmax(logits, -1)[token]))
            tokens.append(token)
            ids = [*ids, token]
        segments.append(Segment("generated", "x", tokens, logprobs))
        if turn == 0:
            segments.append(Segment("observation", "y", [9, 300, 9]))
            ids = [*ids, 9, 300, 9]
    return Trajectory("q", "search", "made", "Who?", ["a"], 1, [5, 6, 7], segments)


def changed(trajectory: Trajectory, **segment) -> Trajectory:
    return replace(trajectory, segments=[replace(trajectory.segments[0], **segment), *trajectory.segments[1:]])


def test_right_episode_agrees(model: Path, greedy: Trajectory) -> None:
    verdict = compare_with_transformers(str(model), greedy, 1e-3)
    assert verdict["tokens"] == 8  # the observation's three are not compared
    assert verdict["max_logprob_diff"] < 1e-5
    assert verdict["disagreements"] == 0
    assert verdict["first"] is None


def test_wrong_logprob_is_seen(model: Path, greedy: Trajectory) -> None:
    first = greedy.segments[0]
    off = changed(greedy, logprobs=[first.logprobs[0] + 0.25, *first.logprobs[1:]])
    verdict = compare_with_transformers(str(model), off, 1e-3)
    assert verdict["max_logprob_diff"] == pytest.approx(0.25, abs=1e-4)
    assert verdict["disagreements"] == 0


def test_wrong_token_is_seen(model: Path, greedy: Trajectory) -> None:
    first = greedy.segments[0]
    off = changed(greedy, token_ids=[*first.token_ids[:3], (first.token_ids[3] + 1) % 400])
    assert compare_with_transformers(str(model), off, 1e-3)["disagreements"] >= 1


def test_other_weights_are_seen(make_model, greedy: Trajectory) -> None:
    assert compare_with_transformers(str(make_model(seed=2)), greedy, 1e-3)["disagreements"] > 0


def test_verdicts_are_files_and_training_waits_for_all_of_them(model: Path, greedy: Trajectory, tmp_path: Path) -> None:
    check = SanityCheck(str(model), str(tmp_path / "sanity"), 2, 1e-3)
    with pytest.raises(RuntimeError, match="sanity check"):
        check.require_passed()
    check.check(0, greedy)
    check.check(2, greedy)  # beyond the number of episodes: not looked at
    with pytest.raises(RuntimeError, match="'episodes': 1"):
        check.require_passed()
    check.check(1, greedy)
    check.require_passed()
    summary = check.summary()
    assert (summary["episodes"], summary["tokens"], summary["passed"]) == (2, 16, True)
    assert sorted(path.name for path in (tmp_path / "sanity").iterdir()) == ["00000.json", "00001.json"]


def test_one_bad_episode_stops_training(model: Path, greedy: Trajectory, tmp_path: Path) -> None:
    check = SanityCheck(str(model), str(tmp_path), 2, 1e-3)
    check.check(0, greedy)
    check.check(1, changed(greedy, logprobs=[-0.5] * 4))
    assert [verdict["passed"] for verdict in check.verdicts()] == [True, False]
    with pytest.raises(RuntimeError):
        check.require_passed()


def test_nan_never_passes(model: Path, greedy: Trajectory, tmp_path: Path) -> None:
    check = SanityCheck(str(model), str(tmp_path), 1, 1e-3)
    check.check(0, changed(greedy, logprobs=[float("nan")] * 4))
    assert json.loads((tmp_path / "00000.json").read_text())["passed"] is False


@pytest.fixture(autouse=True)
def _no_model_of_another_test():
    sanity._model.cache_clear()
    sanity._require_passed.cache_clear()


def test_the_first_disagreement_says_where_and_who_says_what(model: Path, greedy: Trajectory) -> None:
    """The second turn's third token is another than the model's choice: positions 0 to 3, 4 to 6 shown, 7 to 10."""
    last = greedy.segments[2]
    wrong = (last.token_ids[2] + 1) % 400
    segments = [*greedy.segments[:2], replace(last, token_ids=[*last.token_ids[:2], wrong, last.token_ids[3]])]
    first = compare_with_transformers(str(model), replace(greedy, segments=segments), 1e-3)["first"]
    assert (first["position"], first["turn"], first["position_in_turn"]) == (9, 2, 2)
    assert first["token"]["id"] == wrong and first["choice"]["id"] == last.token_ids[2]
    assert first["engine_logprob"] == last.logprobs[2]
    assert first["choice_logprob"] == pytest.approx(last.logprobs[2], abs=1e-5)
    assert first["transformers_logprob"] < first["choice_logprob"]
    tokenizer = AutoTokenizer.from_pretrained(model)
    before = [*greedy.prompt_ids, *greedy.response_ids[:9]]
    assert first["context"] == tokenizer.decode(before)
    assert first["token"]["text"] == tokenizer.decode([wrong])
    assert (first["question"], first["vocabulary"]) == ("Who?", len(tokenizer))


def test_a_logprob_that_differs_is_a_disagreement_at_the_same_choice(model: Path, greedy: Trajectory) -> None:
    logprobs = greedy.segments[0].logprobs
    for off in (0.25, float("nan")):
        altered = changed(greedy, logprobs=[*logprobs[:2], logprobs[2] + off, logprobs[3]])
        first = compare_with_transformers(str(model), altered, 1e-3)["first"]
        assert (first["position"], first["turn"], first["position_in_turn"]) == (2, 1, 2)
        assert first["choice"] == first["token"]


def test_an_episode_in_which_nothing_was_generated_agrees(model: Path, greedy: Trajectory) -> None:
    for segments in ([], greedy.segments[1:2]):
        verdict = compare_with_transformers(str(model), replace(greedy, segments=segments), 1e-3)
        assert verdict == {"tokens": 0, "max_logprob_diff": 0.0, "disagreements": 0, "first": None}


def test_verdicts_come_in_the_order_of_the_episodes(model: Path, greedy: Trajectory, tmp_path: Path) -> None:
    check = SanityCheck(str(model), str(tmp_path), 11, 1e-3)
    empty = replace(greedy, segments=[])
    for index in range(11):
        check.check(index, greedy if index == 10 else empty)
    assert [verdict["tokens"] for verdict in check.verdicts()] == [0] * 10 + [8]
