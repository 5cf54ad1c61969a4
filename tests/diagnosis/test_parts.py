"""Small parts of the diagnosis by values worked out by hand."""

import json
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.diagnosis.copies import examples_of
from tasks.diagnosis.finding import Finding, Look
from tasks.diagnosis.groups import table_of
from tasks.diagnosis.mask import wrong_masks
from tasks.diagnosis.run_data import RunData
from tasks.diagnosis.statistics import bounds, change
from tasks.diagnosis.terminal import headline
from tasks.diagnosis.tracked import nested, same


def test_bounds_are_wilsons() -> None:
    # (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) with z = 1.96, p = 0.5, n = 10.
    assert bounds(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert bounds(4, 4)[0] == pytest.approx(4 / (4 + 1.959964**2), abs=1e-6)


def episodes(groups: list[tuple[str, float]]) -> pd.DataFrame:
    rows = [(source, 1, number, value) for number, (source, value) in enumerate(groups)]
    return pd.DataFrame(rows, columns=["data_source", "step", "question_id", "success"])


def test_a_change_is_that_of_the_same_mix() -> None:
    # Easy questions first and hard ones later: the plain mean falls by .4, each source stays as it was.
    easy, hard = ("easy", 0.9), ("hard", 0.1)
    moved, errors = change(episodes([easy] * 6 + [hard] * 2), episodes([easy] * 2 + [hard] * 6), "success")
    assert (moved, errors) == (0.0, 0.0)
    # Two groups of each before and after: means .2 and .6; variances .02 each; error sqrt(.01 + .01).
    moved, errors = change(episodes([("one", 0.1), ("one", 0.3)]), episodes([("one", 0.5), ("one", 0.7)]), "success")
    assert (moved, errors) == (pytest.approx(0.4), pytest.approx(0.4 / math.sqrt(0.02)))
    assert math.isnan(change(episodes([easy]), episodes([easy] * 3), "success")[0])
    assert change(episodes([easy] * 2), episodes([("easy", 0.5)] * 2), "success")[1] == -math.inf


def test_groups_by_kind() -> None:
    def group(question: str, *members: tuple[float, float, bool]) -> list[dict]:
        shared = {"step": 1, "question_id": question, "question": question, "text": "", "data_source": "made"}
        return [
            {**shared, "reward": r, "success": s, "format_valid": f, "answer": "x" if f else None}
            for r, s, f in members
        ]

    frame = pd.DataFrame(
        group("right", (1.0, 1.0, True), (1.0, 1.0, True))
        + group("form", (0.1, 0.0, True), (0.1, 0.0, True))
        + group("wrong", (0.0, 0.0, False), (0.0, 0.0, False))
        + group("blind", (1.0, 1.0, True), (1.0, 0.0, True))
        + group("signal", (1.0, 1.0, True), (0.1, 0.0, True))
        + group("alone", (1.0, 1.0, True))
    )
    kinds = {row.question_id: row.kind for row in table_of(frame).astype(object).itertuples()}
    assert {key: value for key, value in kinds.items() if not pd.isna(value)} == {
        "right": "all right",
        "form": "all in form only",
        "wrong": "all wrong",
        "blind": "equal though some are right",
    }
    assert "signal" in kinds and "alone" not in kinds


@given(st.lists(st.tuples(st.sampled_from(["generated", "observation", "user"]), st.integers(1, 5)), min_size=1))
def test_masks_are_counted_by_who_wrote(parts: list[tuple[str, int]]) -> None:
    segments = json.dumps([{"kind": kind, "text": "", "tokens": tokens, "mask": 0} for kind, tokens in parts])
    right = [int(kind == "generated") for kind, tokens in parts for _ in range(tokens)]
    ones, others = sum(right), len(right) - sum(right)

    def of(mask: list[int]) -> tuple[int, int, int]:
        return wrong_masks(pd.DataFrame({"segments": [segments], "response_mask": [mask]}))

    assert of(right) == (0, 0, 0)
    assert of([1] * len(right)) == (int(others > 0), others, 0)
    assert of([0] * len(right)) == (int(ones > 0), 0, ones)
    assert of(right[:-1])[0] == 1


def test_the_prompts_examples_are_found_wherever_they_stand() -> None:
    def of(**episode: object) -> set[str]:
        return examples_of(RunData("", params={"episode": episode, "tools": {"names": ["search"]}}))

    assert of(prompt="Write it inside <answer> </answer>. {question}") == set()
    assert of(prompt="For example <answer> Beijing </answer>. {question}") == {"beijing"}
    assert of(prompt={"system": "<answer> The Nile </answer>", "user": "{question}"}, example_answer="Rome") == {
        "nile",
        "rome",
    }


def test_what_is_lacking_is_not_fine_and_what_is_bad_applies_all_the_same() -> None:
    look = Look("mask", "The mask")
    assert look.finding().verdict == "not examined"
    look.good("one thing is in order")
    look.missing("another is not there")
    assert look.finding().verdict == "fine"
    look.lacking("what alone would show it is not there either")
    assert look.finding().verdict == "not examined"
    look.bad("but this is plain", "mend it")
    assert look.finding().verdict == "applies"
    assert [one.weight for one in look.finding().evidence] == ["against", "for", "missing", "missing"]


def test_the_headline_names_causes_before_consequences() -> None:
    def finding(cause: str, verdict, *follows: str) -> Finding:
        return Finding(cause, cause, verdict, (), follows=follows)

    assert headline([finding("a", "fine"), finding("b", "not examined")]) == (
        "none of the 1 causes that were examined applies; 1 could not be examined"
    )
    told = headline([finding("b", "applies", "a"), finding("a", "applies"), finding("c", "fine")])
    assert told == "a; probably in consequence: b"


def test_parameters_come_back_from_mlflows_texts() -> None:
    flat = {"rl.steps": "6", "rl.overrides": "[]", "rl.mask_observations": "False", "episode.example_answer": "None"}
    sections = nested({**flat, "environment.reward.em.weight": "1.0", "episode.prompt": "Question: {question}"})
    assert sections == {
        "rl": {"steps": 6, "overrides": [], "mask_observations": False},
        "episode": {"example_answer": None, "prompt": "Question: {question}"},
        "environment": {"reward": {"em": {"weight": 1.0}}},
    }


def test_files_are_a_runs_when_the_rewards_of_all_steps_are_equal() -> None:
    data = RunData("", steps=[{"step": step, "data": {"critic/score/mean": step / 10}} for step in (1, 2)])
    assert same(data, {"critic/score/mean": [(1, 0.1), (2, 0.2)]})
    assert not same(data, {"critic/score/mean": [(1, 0.1), (2, 0.3)]})
    assert not same(data, {"critic/score/mean": [(1, 0.1)]})
    assert not same(data, {})
