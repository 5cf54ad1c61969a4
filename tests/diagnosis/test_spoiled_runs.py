"""A healthy run has no cause; each spoiled one has the cause that was planted, before its consequences."""

from pathlib import Path

import pytest

from tasks.diagnosis.catalogue import CAUSES, diagnose
from tasks.diagnosis.finding import Finding
from tasks.diagnosis.loading import load
from tests.diagnosis.spoils import SPOILS, cut


def findings(run, tmp_path: Path) -> dict[str, Finding]:
    return {one.cause: one for one in diagnose(load(run.write(tmp_path)))}


def first(found: dict[str, Finding]) -> set[str]:
    return {name for name, one in found.items() if one.verdict == "applies" and not one.follows}


@pytest.mark.parametrize(("spoil", "planted"), SPOILS)
def test_the_planted_cause_is_named_first(recorded_run, tmp_path, spoil, planted) -> None:
    spoil(recorded_run)
    found = findings(recorded_run, tmp_path)
    assert first(found) == planted
    for name in planted:
        assert found[name].mends and found[name].evidence[0].weight == "against"


def test_every_cause_is_planted_at_least_once() -> None:
    assert {name for spoil in SPOILS for name in spoil.values[1]} == set(CAUSES)


def test_a_healthy_run_has_no_cause_and_everything_was_examined(recorded_run, tmp_path) -> None:
    found = findings(recorded_run, tmp_path)
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(CAUSES, "fine")


def test_a_policy_that_learns_to_search_more_may_run_out_of_turns_now_and_then(recorded_run, tmp_path) -> None:
    for one in [one for one in recorded_run.episodes() if one["step"] > 3][::7]:
        cut(one, "turns")
    found = findings(recorded_run, tmp_path)["truncation"]
    assert found.verdict == "fine"
    assert "7.2% of the episodes ended by turns, 14.4% in the second half" in "".join(
        one.text for one in found.evidence
    )


def test_what_no_longer_cuts_in_the_second_half_is_past(recorded_run, tmp_path) -> None:
    for one in [one for one in recorded_run.episodes() if one["step"] < 3][::2]:
        cut(one, "length")
    assert findings(recorded_run, tmp_path)["truncation"].verdict == "fine"


@pytest.mark.parametrize(
    ("steps", "samples", "groups"), [(1, 6, 10), (1, 2, 4), (2, 4, 10), (3, 2, 4), (3, 4, 8), (4, 6, 4), (5, 6, 10)]
)
def test_a_healthy_run_is_healthy_however_short_it_is(recorded_run, tmp_path, steps, samples, groups) -> None:
    kept = {
        step: sorted({one["question_id"] for one in recorded_run.episodes() if one["step"] == step})[:groups]
        for step in range(7)
    }
    recorded_run.rollouts = [
        one
        for one in recorded_run.rollouts
        if one["step"] <= steps
        and (one["split"] == "validation" or (one["sample"] < samples and one["question_id"] in kept[one["step"]]))
    ]
    recorded_run.steps = [step for step in recorded_run.steps if step["step"] <= steps]
    found = findings(recorded_run, tmp_path)
    assert not {name for name, one in found.items() if one.verdict == "applies"}


PARTS = ("params", "steps", "rollouts", "validations", "rows", "sanity", "index", "demos", "passages")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_missing_is_no_cause_and_not_called_fine(recorded_run, tmp_path, part) -> None:
    data = load(recorded_run.write(tmp_path))
    setattr(data, part, {"params": {}, "steps": []}.get(part))
    found = {one.cause: one for one in diagnose(data)}
    assert "applies" not in {one.verdict for one in found.values()}
    lacking = {
        "steps": {"engine"},
        "sanity": {"engine"},
        "validations": {"learning-rate"},
        "rollouts": set(CAUSES) - {"order"},
    }
    assert {name for name, one in found.items() if one.verdict == "not examined"} >= lacking.get(part, set())


def test_one_episode_is_enough_to_say_little(recorded_run, tmp_path) -> None:
    recorded_run.rollouts = recorded_run.episodes()[:1]
    recorded_run.steps = []
    found = findings(recorded_run, tmp_path)
    assert "applies" not in {one.verdict for one in found.values()}
