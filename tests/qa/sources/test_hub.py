"""Data sets of the hub, read from a folder in its layout: the same code but for the network."""

import gzip
import json

import datasets
import huggingface_hub.constants
import pytest

from tasks.errors import InputError


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "set"
    folder.mkdir()
    for part, count in (("train", 3), ("validation", 2)):
        rows = [{"question": f"{part} {number}?", "answer": ["x", "y z"]} for number in range(count)]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_data_set_is_read_by_split(tmp_path, read, hub):
    found = read("nq-open", "hf:set", split="validation")
    assert [(q.id, q.question, q.golden_answers) for q in found.questions] == [
        ("mine-validation-1", "validation 0?", ("x", "y z")),
        ("mine-validation-2", "validation 1?", ("x", "y z")),
    ]
    assert found.questions[1].origin == "hf:set, row 1"


def test_a_part_of_another_name_a_limit_and_columns(read, hub):
    found = read(
        "jsonl",
        f"hf:{hub}",
        split="test",
        part="train",
        limit=2,
        columns={"id": None, "golden_answers": "answer"},
    )
    assert [(q.question, q.split) for q in found.questions] == [("train 0?", "test"), ("train 1?", "test")]


def test_the_rows_have_a_hash(read, hub):
    def digest(**keys):
        return read("nq-open", "hf:set", **keys).source.provenance()["sha256"]

    assert digest() == digest() != digest(limit=2)
    assert read("nq-open", "hf:set").source.provenance()["path"] == "hf:set"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"part": "dev"}, r"hf:set: Bad split: dev\. .*; see that it exists, with a split 'dev'"),
        ({"subset": "full"}, r"hf:set, subset full: BuilderConfig 'full' not found"),
    ],
)
def test_a_split_or_configuration_that_is_not_there(read, hub, keys, message):
    with pytest.raises(InputError, match=message):
        read("nq-open", "hf:set", **keys)


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)


def test_a_data_set_that_cannot_be_reached(read, offline):
    with pytest.raises(InputError, match=r"^hf:nobody/nothing: .*; see that it exists, .*or name a file"):
        read("nq-open", "hf:nobody/nothing")


def test_rows_that_cannot_be_read(read, hub):
    (hub / "train.jsonl").write_text('{"question": "a?", "answer": ["b"]}\n{oops\n')
    with pytest.raises(InputError, match=r"hf:set: JSON parse error"):
        read("nq-open", "hf:set")


@pytest.mark.parametrize("packed", ["cut", "damaged"])
def test_packed_rows_that_are_damaged(read, hub, packed):
    whole = gzip.compress((hub / "train.jsonl").read_bytes() * 500)
    (hub / "train.jsonl").unlink()
    (hub / "train.jsonl.gz").write_bytes(whole[:-12] if packed == "cut" else whole[:10] + b"\xff" * 30)
    with pytest.raises(InputError, match=r"^hf:set.*; see that it exists"):
        read("nq-open", "hf:set")


@pytest.mark.parametrize("identity", ["a" * 5000, "a/" + "b" * 5000, "a\0b", "..", "a@b@c"])
def test_an_id_that_no_data_set_can_have(read, hub, offline, identity):
    with pytest.raises(InputError, match=r"^hf:"):
        read("nq-open", f"hf:{identity}")


def test_a_revision_is_pinned_and_its_commit_recorded(read, hub, monkeypatch):
    asked = {}
    commit = "0123456789abcdef0123456789abcdef01234567"
    load = datasets.load_dataset_builder

    def load_dataset_builder(name, subset, **more):
        asked.update(name=name, subset=subset, **more)
        builder = load(str(hub))
        builder.hash = commit  # as it is for a data set of the hub
        return builder

    monkeypatch.setattr("datasets.load_dataset_builder", load_dataset_builder)
    found = read("nq-open", "hf:google/nq_open@5dd9790", subset="full")
    assert found.questions[0].origin == "hf:google/nq_open@5dd9790, subset full, row 0"
    assert asked == {"name": "google/nq_open", "revision": "5dd9790", "subset": "full"}
    known = found.source.provenance()
    assert (known["path"], known["commit"]) == ("hf:google/nq_open@5dd9790", commit)


def test_a_folder_has_no_commit(read, hub):
    assert "commit" not in read("nq-open", "hf:set").source.provenance()
