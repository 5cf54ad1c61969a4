"""All of the field's sets that are at hand, through ingest and the suite, with the default parameters."""

from pathlib import Path

import pytest

from tasks import ingest
from tasks.qa.records import SPLITS
from tasks.qa.suite import catalogue
from tasks.qa.suite.checking import Settings, check

REAL = Path(__file__).parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not beside this checkout")
UNIFIED = [
    ("hotpotqa", "train test"),
    ("nq", "train test"),
    ("squad", "train test"),
    ("2wikimultihopqa", "train"),
    ("musique", "train"),
]
OFFICIAL = [
    ("hotpotqa", "hotpotqa_train_100.json"),
    ("musique", "musique_train_100.json"),
    ("nq-open", "NQ-open.dev.jsonl"),
    ("squad", "squad_en_240.json"),
    ("verl", "musique_train_verl_rows.parquet"),
]


def unified() -> list[dict]:
    return [
        {"reader": "jsonl", "name": name, "path": f"qa/{name}.{split}.jsonl", "split": split}
        for name, splits in UNIFIED
        for split in splits.split()
    ]


def official() -> list[dict]:
    return [
        {"reader": reader, "name": f"{reader}-official", "path": f"official/{file}", "split": "train"}
        for reader, file in OFFICIAL
    ]


def gsm8k() -> list[dict]:
    files = (("train", "train.jsonl.gz"), ("test", "test.jsonl"))
    return [{"reader": "gsm8k", "name": "gsm8k", "path": f"gsm8k/{file}", "split": split} for split, file in files]


@pytest.mark.parametrize(
    ("sources", "corpus", "read", "dropped"),
    [
        (unified(), True, 6_124, {}),
        # NQ-open has two questions whose only answer is without a letter or digit.
        (official(), False, 24_938, {"unmatchable_answer": 2}),
        (gsm8k(), False, 8_792, {}),
    ],
    ids=["unified", "official", "gsm8k"],
)
def test_the_set_is_read_split_and_passes_the_suite(make_stage, sources, corpus, read, dropped):
    files = {"data_dir": str(REAL), "sources": sources, "corpus": "corpus/wiki_passages.jsonl.gz" if corpus else None}
    stage = make_stage("ingest", ingest=files)
    figures = ingest.run(stage)
    assert figures["dropped"].items() >= dropped.items()
    kept = sum(sum(of_split.values()) for of_split in figures["rows"].values())
    assert kept + sum(figures["dropped"].values()) == read
    assert all(figures["rows"].values())
    outcomes, _ = check(
        {split: stage.out / f"{split}.parquet" for split in SPLITS},
        Settings(
            stage=True,
            severities=catalogue.severities({}),
            false_alarm=1e-6,
            min_rows=64,
            say=print,
            corpus=stage.out / "corpus.parquet",
        ),
        stage.out / "docs",
    )
    assert [one.record for one in outcomes if not one.passed and one.severity == "error"] == []
