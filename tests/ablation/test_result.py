"""Results as JSON, and from what the stages leave."""

import json

import pandas as pd
import pytest

from tasks.ablation import few, result
from tasks.errors import InputError


def trajectories() -> pd.DataFrame:
    rows = [
        {"model": model, "question_id": question, "data_source": source, "hops": hops, "em": em, "searches": searches,
         "format_valid": em > 0}
        for model, right in (("sft", {"a"}), ("base", set()), ("rl", {"a", "b"}), ("champion", {"a", "b", "c"}))
        for question, source, hops in (("c", "world-two-hop", 2), ("a", "world-one-hop", 1), ("b", "mine", 1))
        for em, searches in [(float(question in right), 3 if question == "c" else 0)]
    ]  # fmt: skip
    return pd.DataFrame(rows)


STEPS = [
    {"step": 0, "data": {"val-core/x": 0.5}},
    {"step": 1, "data": {"episode/score": 0.5, "text": "x", "broken": float("nan")}},
    {"step": 2, "data": {"episode/score": 0.75}},
]
VALIDATION = {"0": {"one-hop": {"em": 1.0, "searches": 1.0, "n": 2}, "all": {"em": 0.5, "searches": 1.5, "n": 4}}}


def made(**more) -> result.Result:
    given = {"trajectories": trajectories(), "steps": STEPS, "validation": VALIDATION, "prompts": 16, **more}
    return result.from_outputs(
        arm="dapo", seed=3, profile="tiny", commit="abc", machine="2 cores", seconds_per_step=6.5, **given
    )


def test_the_stages_outputs_become_a_result() -> None:
    found = made()
    assert found.questions.model_dump() == {
        "id": ["a", "b", "c"], "kind": ["one-hop", "mine", "two-hop"], "hops": [1, 1, 2],
    }  # fmt: skip
    assert {name: model.em for name, model in found.models.items()} == {
        "base": [0, 0, 0], "sft": [1, 0, 0], "rl": [1, 1, 0],
    }  # fmt: skip
    assert (found.models["rl"].searches, found.models["rl"].format_rate) == (1.0, pytest.approx(2 / 3))
    assert [step.model_dump() for step in found.steps] == [
        {"step": 1, "data": {"episode/score": 0.5}},
        {"step": 2, "data": {"episode/score": 0.75}},
    ]
    assert found.validation["0"].em == 0.5
    assert found.generations_per_batch == 1.0


def test_hops_that_a_source_does_not_tell_are_0() -> None:
    frame = trajectories()
    frame["hops"] = frame["hops"].where(frame["data_source"] != "mine")
    assert made(trajectories=frame).questions.hops == [1, 0, 2]


def test_generations_a_batch_are_dapos_or_starpos_own_count() -> None:
    def counted(*names_and_values) -> float:
        steps = [
            {"step": n, "data": {"episode/score": 0.5, name: value}} for n, (name, value) in enumerate(names_and_values)
        ]
        return made(steps=steps).generations_per_batch

    dapo, starpo = "training/filter_groups/generations_per_batch", "training/keep_groups/generated_groups"
    assert counted((dapo, 1.5), (dapo, 2.5)) == 2.0
    assert counted((starpo, 32), (starpo, 32)) == 2.0


def test_a_folder_holds_one_file_a_run(make_result, tmp_path) -> None:
    results = [make_result("baseline", 0), make_result("baseline", 1), make_result("dapo", 0)]
    paths = [result.write(one, tmp_path) for one in results]
    assert [path.name for path in paths] == ["baseline-seed-0.json", "baseline-seed-1.json", "dapo-seed-0.json"]
    assert result.read(tmp_path) == results
    (tmp_path / "again.json").write_text(paths[0].read_text())
    with pytest.raises(InputError, match=r"baseline-seed-0\.json: a second result of arm baseline, seed 0; keep one"):
        result.read(tmp_path)


def test_an_empty_folder_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no results \(\*\.json\)"):
        result.read(tmp_path)


def change(content, key, value):
    *path, last = key.split(".")
    for name in path:
        content = content[name]
    content[last] = value


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("arn", "dapo", "unknown key 'arn'; did you mean 'arm'?"),
        ("seed", "0", "seed: Input should be a valid integer, got '0'"),
        ("models.rl.em", [1, 0], "a model has not one em for each of the 10 questions"),
        ("models.champion", {"em": [1] * 10, "searches": 1.0, "format_rate": 1.0}, "models must be base, sft, rl"),
        ("models.rl.em", [2] * 10, "models.rl.em.0: Input should be less than or equal to 1, got 2"),
        ("questions.kind", ["x"], "the questions' lists differ in length"),
        ("questions.id", ["b", "a"], "the questions' ids must ascend, each once"),
        ("steps", [{"step": 1, "data": {}}], "a step has no episode/score"),
        ("validation", {"first": {"em": 1.0, "searches": 1.0}}, "should match pattern"),
        ("generations_per_batch", 0.5, "greater than or equal to 1"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(make_result, tmp_path, key, value, line) -> None:
    content = make_result("dapo").model_dump(mode="json")
    change(content, key, value)
    (tmp_path / "one.json").write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        result.read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'one.json'}: ") and line in str(caught.value)


def test_few_questions_make_four_epochs() -> None:
    ids = [f"q{n}" for n in range(100)]
    drawn = few.draw(ids, steps=20, prompts=16, seed=0)
    assert len(drawn) == 80 and drawn == [one for one in ids if one in set(drawn)]
    assert drawn == few.draw(ids, steps=20, prompts=16, seed=0) != few.draw(ids, steps=20, prompts=16, seed=1)
    with pytest.raises(InputError, match="RL has 50 questions and 80 are to be drawn"):
        few.draw(ids[:50], steps=20, prompts=16, seed=0)
    with pytest.raises(InputError, match=r"rl\.steps: 3 steps are fewer than 4 epochs"):
        few.draw(ids, steps=3, prompts=16, seed=0)
