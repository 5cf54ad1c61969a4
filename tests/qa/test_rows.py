from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tasks.agent.environments.search.environment import Environment, SearchParams
from tasks.agent.prompts import Template
from tasks.errors import InputError
from tasks.qa.records import Passage, Question
from tasks.qa.rows import CorpusWriter, write_splits
from tasks.qa.table import ROWS

TEMPLATE = Template((("user", ("Answer.\n\nQuestion: ", "")),))
QUESTION = Question(
    "q1", "world-one-hop", "Who employs Karo?", ("Dunel", "the Dunel"), 1, ("Karo",), ("p1",), "x", type="one-hop"
)
NO_GOLD = Question("q2", "nq", "Who?", ("Karo",), 1, (), (), "x")
SEARCH = Environment(SearchParams(reward={"em": {"weight": 1.0}, "format": {"weight": 0.1}}))


class Arithmetic:
    """An environment whose ground truth is a text."""

    name = "arithmetic"

    def prompt(self, question, template):
        return [{"role": "user", "content": question}]

    def ground_truth(self, question):
        return question["golden_answers"][0]


@pytest.fixture
def folder(tmp_path, spooled):
    splits = {"train": [0, 1], "validation": [], "test": [1]}
    write_splits(tmp_path, spooled([QUESTION, NO_GOLD]), numbers(splits), SEARCH, TEMPLATE)
    return tmp_path


def numbers(splits):
    return {split: np.array(rows, int) for split, rows in splits.items()}


def test_pandas_reads_the_contract(folder):
    first, second = pd.read_parquet(folder / "train.parquet").to_dict("records")
    assert {k: first[k] for k in ("data_source", "environment", "agent_name", "ability")} == {
        "data_source": "world-one-hop",
        "environment": "search",
        "agent_name": "forager",
        "ability": "fact-reasoning",
    }
    assert list(first["prompt"]) == [{"role": "user", "content": "Answer.\n\nQuestion: Who employs Karo?"}]
    assert first["reward_model"]["style"] == "rule"
    assert list(first["reward_model"]["ground_truth"]["target"]) == ["Dunel", "the Dunel"]
    assert first["reward_model"]["ground_truth"]["scorer"] == "squad"
    assert (first["extra_info"]["type"], second["extra_info"]["type"]) == ("one-hop", None)
    info = first["extra_info"]
    assert (info["index"], info["split"], info["id"], info["hops"]) == (0, "train", "q1", 1)
    assert (list(info["supporting_titles"]), list(info["gold_passage_ids"])) == (["Karo"], ["p1"])
    assert second["extra_info"]["index"] == 1
    assert list(second["extra_info"]["gold_passage_ids"]) == []


def test_datasets_reads_and_joins_the_splits(folder, tmp_path):
    import datasets

    parts = [
        datasets.load_dataset("parquet", data_files=str(folder / f"{s}.parquet"), cache_dir=str(tmp_path / s))["train"]
        for s in ("train", "test")
    ]
    joined = datasets.concatenate_datasets(parts)
    assert joined[0]["reward_model"] == {
        "style": "rule",
        "ground_truth": {"target": ["Dunel", "the Dunel"], "scorer": "squad"},
    }
    assert joined[2]["extra_info"]["question"] == "Who?"


def test_an_empty_split_has_the_columns_of_the_others(folder):
    assert pq.read_schema(folder / "validation.parquet") == pq.read_schema(folder / "train.parquet")
    assert len(pd.read_parquet(folder / "validation.parquet")) == 0


def test_a_ground_truth_may_be_a_text(tmp_path, spooled):
    write_splits(tmp_path, spooled([QUESTION]), numbers({"train": [0]}), Arithmetic(), TEMPLATE)
    assert pd.read_parquet(tmp_path / "train.parquet")["reward_model"][0]["ground_truth"] == "Dunel"


def test_rows_are_written_in_groups_and_numbered_through(tmp_path, spooled):
    count = ROWS + 3
    table = spooled(replace(QUESTION, id=str(n)) for n in range(count))
    order = np.arange(count)[::-1]
    write_splits(tmp_path, table, {"train": order}, SEARCH, TEMPLATE)
    file = pq.ParquetFile(tmp_path / "train.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [ROWS, 3]
    info = file.read(["extra_info"])["extra_info"].to_pylist()
    assert [one["index"] for one in info] == list(range(count))
    assert [one["id"] for one in info] == [str(n) for n in order]


def test_corpus_keeps_a_missing_url_and_writes_an_id_once(tmp_path):
    writer = CorpusWriter(tmp_path / "c.parquet")
    for passage in (Passage("1", "a", "b"), Passage("2", "c", "d", "u"), Passage("1", "a", "b")):
        writer.add(passage, "here")
    with pytest.raises(InputError, match="here: another passage with the id '1' is there already"):
        writer.add(Passage("1", "a", "z"), "here")
    assert writer.close().to_pylist() == ["1", "2"]
    frame = pd.read_parquet(tmp_path / "c.parquet")
    assert list(frame.columns) == ["id", "title", "text", "url"]
    assert frame["url"].isna().tolist() == [True, False]


def test_a_corpus_of_many_passages_keeps_their_order(tmp_path):
    writer = CorpusWriter(tmp_path / "c.parquet")
    for number in range(ROWS + 2):
        writer.add(Passage(str(number), "t", str(number)), "here")
    writer.close()
    assert writer.count == ROWS + 2
    assert pd.read_parquet(tmp_path / "c.parquet")["text"].tolist() == [str(n) for n in range(ROWS + 2)]


@pytest.mark.slow
def test_verl_reads_the_rows(folder, tmp_path):
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    config = OmegaConf.create({"cache_dir": str(tmp_path), "filter_overlong_prompts": False})
    data = RLHFDataset([str(folder / "train.parquet")], tokenizer=None, config=config)
    batch = collate_fn([data[0], data[1]])
    assert list(batch["index"]) == [0, 1]
    assert batch["raw_prompt"][0][0]["content"].endswith("Who employs Karo?")
    assert batch["tools_kwargs"][0] is None
    assert batch["reward_model"][0]["ground_truth"] == {"target": ["Dunel", "the Dunel"], "scorer": "squad"}
