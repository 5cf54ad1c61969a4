import json
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.evaluation import jobs
from tasks.evaluation.jobs import Model, champion, plan

MODELS = [Model(name=name, folder=Path(name)) for name in ("base", "rl")]


def settings(defaults, **more):
    return defaults.evaluate.model_copy(update={"max_seqs": 100, "batch_check": None, **more})


def test_every_question_is_in_one_shard_of_every_model(defaults) -> None:
    planned = plan(MODELS, settings(defaults), 250, Path("parts"))
    for model in MODELS:
        mine = [(job.first, job.last) for job in planned if job.model == model]
        assert mine == [(0, 100), (100, 200), (200, 250)]
    assert len({job.part for job in planned}) == len(planned) == 6
    assert planned[0].part == Path("parts/base/greedy/000000.parquet")


def test_shards_are_the_same_with_any_number_of_engines(defaults) -> None:
    assert plan(MODELS, settings(defaults, engines=3), 250, Path("p")) == plan(
        MODELS, settings(defaults), 250, Path("p")
    )


def test_samples_for_all_and_smaller_batches_for_the_trained_model(defaults) -> None:
    check = defaults.evaluate.batch_check.model_copy(update={"questions": 120, "max_seqs": [8, 1]})
    sampling = (
        type(defaults.evaluate)
        .model_validate(defaults.evaluate.model_dump() | {"pass_at": {"k": [1, 4], "samples": 4, "temperature": 0.7}})
        .pass_at
    )
    planned = plan(MODELS, settings(defaults, batch_check=check, pass_at=sampling), 150, Path("p"))
    ways = {model.name: {job.way.name: job.way for job in planned if job.model == model} for model in MODELS}
    assert list(ways["base"]) == ["greedy", "sampled"]
    assert list(ways["rl"]) == ["greedy", "sampled", "max-seqs-8", "max-seqs-1"]
    assert (ways["rl"]["sampled"].samples, ways["rl"]["sampled"].temperature) == (4, 0.7)
    assert [(job.first, job.last) for job in planned if job.way.batch == 8] == [(0, 100), (100, 120)]
    assert jobs.GREEDY.temperature == 0.0


def test_the_candidates_answers_are_played_again_whatever_it_is_called(defaults) -> None:
    models = [*MODELS, Model(name="rft", folder=Path("rft"))]
    planned = plan(models, settings(defaults, batch_check=defaults.evaluate.batch_check), 60, Path("p"))
    assert {job.model.name for job in planned if job.way.batch is not None} == {"rft"}


def test_a_batch_size_that_is_named_twice_is_played_once(defaults) -> None:
    check = defaults.evaluate.batch_check.model_copy(update={"max_seqs": [8, 8]})
    planned = plan(MODELS, settings(defaults, batch_check=check), 50, Path("p"))
    assert len({job.part for job in planned}) == len(planned) == 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "champion"
    made.mkdir()
    (made / "config.json").write_text(json.dumps({"max_position_embeddings": 320, "dtype": "float32"}))
    (made / "tokenizer_config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def test_a_champions_parts_are_filed_under_its_content(folder, defaults) -> None:
    before = champion(str(folder), 320)
    assert champion(str(folder), 320) == before
    (folder / "model.safetensors").write_bytes(b"others")
    after = champion(str(folder), 320)
    parts = [plan([model], settings(defaults), 10, Path("p"))[0].part for model in (before, after)]
    assert before.name == after.name == "champion" and parts[0] != parts[1]


def test_a_folder_that_is_no_champion_is_refused(folder, tmp_path) -> None:
    with pytest.raises(InputError, match=r"context of 320 tokens is less than an episode's 321"):
        champion(str(folder), 321)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"no champion here: \*\.safetensors is missing; name a folder .*evaluate"):
        champion(str(folder), 320)
    with pytest.raises(InputError, match=r"nowhere: no champion here: config\.json is missing"):
        champion(str(tmp_path / "nowhere"), 320)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("{", "config.json: no model's configuration: Invalid JSON"),
        ("[]", "config.json: no model's configuration: Input should be an object"),
        ("null", "config.json: no model's configuration: Input should be an object"),
        (b"\xff\xfe", "config.json: no model's configuration: Invalid JSON"),
        ('{"max_position_embeddings": "512"}', "config.json, key max_position_embeddings: no model's configuration: "),
        ('{"max_position_embeddings": 320}', "config.json: the champion's dtype is not said; add it"),
    ],
)
def test_a_configuration_that_is_none_is_refused_with_one_line(folder, config, told) -> None:
    (folder / "config.json").write_bytes(config if isinstance(config, bytes) else config.encode())
    with pytest.raises(InputError) as caught:
        champion(str(folder), 320)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_older_configurations_have_another_name_for_the_dtype(folder) -> None:
    (folder / "config.json").write_text(json.dumps({"torch_dtype": "bfloat16", "architectures": ["Any"]}))
    assert champion(str(folder), 320).name == "champion"
