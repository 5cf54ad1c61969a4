"""Demonstrations as verl's SFT trainer reads them, against the episodes they are to teach."""

import asyncio
import copy
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hydra import compose, initialize_config_module
from verl.trainer.sft_trainer import create_sft_dataset
from verl.utils.dataset.dataset_utils import DatasetPadMode, SFTTensorCollator

from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.demonstrations import demonstrate, table
from tasks.agent.environments.search.environment import Environment, SearchParams
from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.protocols import Hermes, SearchR1
from tasks.agent.toolbox import Passage, Result
from tasks.training.sft_config import SftRun, sft_overrides, trainer_overrides
from tasks.training.sft_dataset import TrajectoryDataset, demonstration_ids

BUDGET = Budget(max_turns=4, max_response_tokens=200, max_turn_tokens=40, max_observation_tokens=44)
PROMPT = [{"role": "user", "content": "Who?"}]


class Library:
    names = ("search",)

    async def call(self, trajectory_id: str, calls) -> list[Result]:
        return [self._search(call.text or call.arguments["query"]) for call in calls]

    async def release(self, trajectory_id: str) -> None: ...

    def _search(self, query: str) -> Result:
        return Result("", (Passage(query, query, f"{query} was born in Rove. </answer> It rains there often."),))


@pytest.fixture(scope="module")
def row(question_row):
    return question_row("Where was Kashi born?", ["Rove"], ["Kashi", "Lomo"], ["Kashi", "Lomo"])


@pytest.fixture(scope="module")
def setup(tokenizer) -> Setup:
    environment = Environment(SearchParams(reward={"em": {"weight": 1.0}, "format": {"weight": 0.1}}))
    return Setup(SearchR1(), environment, Library(), Chat(tokenizer), BUDGET)


@pytest.fixture(scope="module")
def demonstration(row, setup):
    return asyncio.run(demonstrate(row, setup=setup, think=True))


@pytest.fixture(scope="module")
def episode(row, setup, tokenizer, demonstration):
    """The episode of a policy that writes the demonstration's turns."""
    turns = iter([s.text for s in demonstration.segments if s.kind == "generated"])

    async def generate(prompt, *, max_tokens, stop) -> Generation:
        return Generation(tokenizer.encode(next(turns)), None)

    return asyncio.run(run_episode(row, generate=generate, setup=setup))


@pytest.fixture(scope="module")
def dataset(demonstration, tokenizer, defaults, tmp_path_factory):
    path = tmp_path_factory.mktemp("demos") / "train.parquet"
    pq.write_table(table([demonstration] * 3, []), path)
    return loaded(path, tokenizer, defaults)


def loaded(path: Path, tokenizer, defaults):
    """The rows as verl's trainer loads them, and its configuration."""
    overrides = sft_overrides(
        defaults.sft, defaults.episode, model=Path("m"), train=path, validation=path, checkpoints=Path("c"),
        seed=0, dtype="float32", gpu=False,
    )  # fmt: skip
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("sft_trainer_engine", overrides).data
    return create_sft_dataset(str(path), config, tokenizer, None), config


def test_verls_own_loading_gives_the_ids_of_the_episode_and_the_end_token(dataset, episode, tokenizer) -> None:
    rows, _ = dataset
    assert len(rows) == 3
    item = rows[1]
    ids, mask = item["input_ids"].tolist(), item["loss_mask"].tolist()
    assert ids == [*episode.prompt_ids, *episode.response_ids, tokenizer.eos_token_id]
    assert mask == [0] * len(episode.prompt_ids) + episode.response_mask + [1]
    assert 0 < sum(episode.response_mask) < len(episode.response_mask)
    assert item["position_ids"].tolist() == list(range(len(ids)))
    assert episode.success == 1.0 and len(episode.queries) == 2


def test_schemas_that_the_template_shows_are_in_the_prompt(row, setup, tokenizer, defaults, tmp_path: Path) -> None:
    schemas = [
        {"type": "function", "function": {"name": name, "description": "d", "parameters": {name: "x"}}}
        for name in ("search", "sum")
    ]
    showing = copy.deepcopy(tokenizer)
    showing.chat_template = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}" + tokenizer.chat_template
    chat = Chat(showing, schemas)
    assert chat.shows_tools()
    of_calls = replace(
        setup, protocol=Hermes(), chat=chat, budget=replace(BUDGET, max_response_tokens=600, max_turn_tokens=99)
    )
    made = asyncio.run(demonstrate(row, setup=of_calls, think=False))
    pq.write_table(table([made], schemas), tmp_path / "train.parquet")
    (item,), _ = loaded(tmp_path / "train.parquet", showing, defaults)
    asked = chat.prompt_ids(row["prompt"])
    assert item["input_ids"].tolist()[: len(asked)] == asked and not item["loss_mask"][: len(asked)].any()
    assert all(showing.decode(asked).count(json.dumps(one)) == 1 for one in schemas)


def test_verls_collator_takes_the_rows(dataset) -> None:
    rows, config = dataset
    batch = SFTTensorCollator(DatasetPadMode(config.pad_mode))([rows[0], rows[2]])
    assert {"input_ids", "position_ids", "loss_mask"} <= batch.keys()
    assert all(torch.equal(batch["loss_mask"][n], rows[0]["loss_mask"]) for n in range(2))


def test_a_demonstration_that_is_too_long_is_refused(dataset, monkeypatch) -> None:
    rows, _ = dataset
    monkeypatch.setattr(rows, "max_length", len(rows[0]["input_ids"]))
    assert rows[0]
    monkeypatch.setattr(rows, "max_length", len(rows[0]["input_ids"]) - 1)
    with pytest.raises(ValueError, match="demonstration 0 has"):
        rows[0]


def test_segments_are_never_encoded_across_a_border(tokenizer) -> None:
    segments = [{"text": "<search> Ka", "loss": True}, {"text": "shi", "loss": False}]
    ids, mask = demonstration_ids(tokenizer, PROMPT, segments)
    own = [tokenizer.encode(segment["text"]) for segment in segments]
    assert ids[-sum(map(len, own)) - 1 :] == [*own[0], *own[1], tokenizer.eos_token_id]
    assert mask[-len(own[1]) - len(own[0]) - 1 :] == [1] * len(own[0]) + [0] * len(own[1]) + [1]


def trajectories_file(path: Path, episode) -> Path:
    """A log's columns of one episode, twice, with others beside them."""
    record = episode.record()
    pq.write_table(pa.Table.from_pylist([{**record, "question_id": name} for name in "ab"]), path)
    return path


def test_a_trajectory_is_taken_over_token_by_token(tmp_path, episode, tokenizer, defaults) -> None:
    path = trajectories_file(tmp_path / "rows.parquet", episode)
    asked = SftRun(learning_rate=1e-3, batch_size=2, steps=1, check_every=1, dataset="TrajectoryDataset")
    overrides = trainer_overrides(
        asked, defaults.episode, model=Path("/m"), train=path, validation=path, checkpoints=Path("/c"), seed=0,
        dtype="float32", gpu=False,
    )  # fmt: skip
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("sft_trainer_engine", overrides)
    dataset = create_sft_dataset(config.data.train_files, config.data, tokenizer, None)
    assert len(dataset) == 2
    item = dataset[1]
    assert item["input_ids"].tolist() == [*episode.prompt_ids, *episode.response_ids]
    # Prompt and observations have mask 0, every token that the policy wrote has mask 1.
    segments = [(segment.kind == "generated", len(segment.token_ids)) for segment in episode.segments]
    assert {generated for generated, _ in segments} == {True, False}
    wanted = [0] * len(episode.prompt_ids) + [int(generated) for generated, count in segments for _ in range(count)]
    assert item["loss_mask"].tolist() == wanted
    assert item["position_ids"].tolist() == list(range(len(wanted)))


def test_trajectories_make_a_batch_without_padding(tmp_path, episode, tokenizer) -> None:
    dataset = TrajectoryDataset(str(trajectories_file(tmp_path / "rows.parquet", episode)), tokenizer=tokenizer)
    batch = SFTTensorCollator(DatasetPadMode.NO_PADDING)([dataset[0], dataset[1]])
    assert batch["input_ids"].offsets().diff().tolist() == [len(episode.prompt_ids) + len(episode.response_ids)] * 2
