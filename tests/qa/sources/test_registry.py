import subprocess
import sys
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.qa.sources import fitting, registry, source_keys
from tasks.qa.sources.hotpotqa import Source as HotpotQA
from tasks.qa.sources.passages import Source as Passages

FILE = {"name": "mine", "path": "q", "split": "train"}


def test_every_reader_is_found_by_its_name_and_says_where_its_data_come_from():
    assert set(registry()) == {
        *(
            "jsonl",
            "csv",
            "parquet",
            "hotpotqa",
            "2wikimultihopqa",
            "musique",
            "nq-open",
            "squad",
            "gsm8k",
            "gaia",
            "verl",
        ),
        *("world", "passages", "beir"),
    }
    assert all(source.upstream and source.licence for source in registry().values())


@pytest.mark.parametrize("reader", ["jsonl", "squad", "world"])
def test_questions_are_no_corpus(reader):
    with pytest.raises(
        InputError,
        match=rf"^f\.yaml: ingest\.corpus\.reader: '{reader}' reads questions, not passages; "
        "readers of passages are: beir, passages$",
    ):
        source_keys({"reader": reader, **FILE}, "ingest.corpus", "f.yaml")


@pytest.mark.parametrize("reader", ["passages", "beir"])
def test_a_corpus_is_no_source_of_questions(reader):
    message = rf"ingest\.sources\.1\.reader: '{reader}' reads passages, not questions; readers of questions are: csv, "
    with pytest.raises(InputError, match=message):
        source_keys({"reader": reader, "path": "c.jsonl"}, "ingest.sources.1")
    assert source_keys({"reader": reader, "path": "c.jsonl"}, "ingest.corpus").reader == reader


def test_those_whose_questions_are_over_paragraphs_look_passages_up():
    looking = {reader for reader, source in registry().items() if source.looks_up_passages}
    assert looking == {"hotpotqa", "2wikimultihopqa", "musique", "squad"}


def test_finding_them_loads_no_engine():
    heavy = {"pandas", "pyarrow", "torch", "transformers", "datasets", "numpy", "ijson"}
    code = "import sys; from tasks.qa.sources import registry; registry(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert not heavy & set(loaded.stdout.split())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"reader": "hotpot"}, r"s\.0\.reader: no reader 'hotpot'; did you mean 'hotpotqa'\?"),
        ({"reader": "jsonl", **FILE, "limt": 3}, r"unknown key 's\.0\.limt'; did you mean 'limit'\?"),
        ({"reader": "jsonl", "name": "a", "split": "train"}, r"key 's\.0\.path' is missing"),
        ({"reader": "jsonl", **FILE, "split": "dev"}, r"s\.0\.split: .*'train', 'validation' or 'test'.* got 'dev'"),
        ({"reader": "jsonl", **FILE, "limit": 10**30}, r"s\.0\.limit: .*less than or equal to 9223372036854775807"),
        ({"reader": "jsonl", **FILE, "limit": 0}, r"s\.0\.limit: .*greater than 0"),
        ({"reader": "jsonl", **FILE, "columns": {"answer": "a"}}, r"unknown key 's\.0\.columns\.answer'"),
        (
            {"reader": "jsonl", **FILE, "columns": {"questoin": "q"}},
            r"'s\.0\.columns\.questoin'; did you mean 'question'\? its keys are: id, question, golden_answers, ",
        ),
        ({"reader": "jsonl", **FILE, "name": ""}, r"s\.0\.name: must be 1 to 100 characters"),
        ({"reader": "jsonl", **FILE, "name": "a" * 101}, r"s\.0\.name: must be 1 to 100 characters"),
        ({"reader": "jsonl", **FILE, "name": " a"}, r"s\.0\.name: .* without space at its ends"),
        ({"reader": "jsonl", **FILE, "name": ".."}, r"s\.0\.name: .* neither \. nor \.\."),
        ({"reader": "jsonl", **FILE, "name": "a/b"}, r"s\.0\.name: must hold neither / nor a control character"),
        ({"reader": "jsonl", **FILE, "name": "a\nb"}, r"s\.0\.name: must hold neither / nor a control character"),
        ({"reader": "csv", **FILE, "delimiter": "::"}, r"s\.0\.delimiter: .*at most 1 character"),
        ({"reader": "jsonl", **FILE, "subset": "full"}, "subset and part are for a data set of the hub"),
        ({"reader": "jsonl", **FILE, "path": "hf:"}, "path must name a file, or a data set of the hub: hf:OWNER/NAME"),
    ],
)
def test_wrong_keys_are_named(entry, message):
    with pytest.raises(InputError, match=message):
        source_keys(entry, "s.0")


@pytest.mark.parametrize(
    ("keys", "ending", "like", "reader"),
    [
        ("id question golden_answers", ".jsonl", HotpotQA, "jsonl"),
        ("id question golden_answers", ".parquet", HotpotQA, "parquet"),
        ("id question golden_answers data_source prompt reward_model", ".parquet", HotpotQA, "verl"),
        ("id question answer paragraphs question_decomposition more", ".json", HotpotQA, "musique"),
        ("_id title text", ".jsonl", Passages, "beir"),
        ("_id title text", ".jsonl", HotpotQA, None),
        ("question answer", ".jsonl", HotpotQA, None),
    ],
)
def test_the_reader_that_fits_is_found_by_keys(keys, ending, like, reader):
    assert fitting(keys.split(), ending, like) == reader
