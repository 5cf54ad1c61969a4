import pandas as pd
import pytest

from tasks.agent.environments.search.environment import Environment, SearchParams
from tasks.qa.records import Passage, Question
from tasks.qa.rows import write_corpus, write_splits

TEMPLATE = "Answer.\n\nQuestion: {question}"
QUESTION = Question("q1", "world-one-hop", "Who employs Karo?", ("Dunel", "the Dunel"), 1, ("Karo",), ("p1",), "x")
NO_GOLD = Question("q2", "nq", "Who?", ("Karo",), 1, (), (), "x")
SEARCH = Environment(SearchParams(em_score=1.0, format_score=0.1))


class Arithmetic:
    """An environment whose ground truth is a text."""

    name = "arithmetic"

    def prompt(self, question, template):
        return [{"role": "user", "content": question}]

    def ground_truth(self, question):
        return question["golden_answers"][0]


@pytest.fixture
def folder(tmp_path):
    splits = {"train": [QUESTION, NO_GOLD], "validation": [], "test": [NO_GOLD]}
    assert write_splits(tmp_path, splits, SEARCH, TEMPLATE) == {"train": 2, "validation": 0, "test": 1}
    return tmp_path


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
    assert joined[0]["reward_model"] == {"style": "rule", "ground_truth": {"target": ["Dunel", "the Dunel"]}}
    assert joined[2]["extra_info"]["question"] == "Who?"


def test_an_empty_split_has_the_columns_of_the_others(folder):
    import pyarrow.parquet as pq

    assert pq.read_schema(folder / "validation.parquet") == pq.read_schema(folder / "train.parquet")
    assert len(pd.read_parquet(folder / "validation.parquet")) == 0


def test_a_ground_truth_may_be_a_text(tmp_path):
    write_splits(tmp_path, {"train": [QUESTION], "validation": [], "test": []}, Arithmetic(), TEMPLATE)
    assert pd.read_parquet(tmp_path / "train.parquet")["reward_model"][0]["ground_truth"] == "Dunel"


def test_corpus_keeps_a_missing_url(tmp_path):
    write_corpus(tmp_path / "c.parquet", [Passage("1", "a", "b"), Passage("2", "c", "d", "u")])
    frame = pd.read_parquet(tmp_path / "c.parquet")
    assert list(frame.columns) == ["id", "title", "text", "url"]
    assert frame["url"].isna().tolist() == [True, False]


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
    assert batch["reward_model"][0]["ground_truth"] == {"target": ["Dunel", "the Dunel"]}
