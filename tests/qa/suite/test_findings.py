import json

import pytest


def found(tmp_path):
    return [json.loads(line) for line in (tmp_path / "findings.jsonl").read_text(encoding="utf-8").splitlines()]


def test_nothing_is_told_of_good_rows(run, splits, tmp_path):
    run(splits)
    assert found(tmp_path) == []


def test_every_leaking_row_is_told_with_the_other_row(run, splits, tmp_path):
    train = splits["train"]
    # More than any report shows a sample of.
    for number in range(0, 40, 2):
        question = f"in TEST who has {'<b>' * (number == 4)} number 1 of test"
        train[number]["extra_info"]["question"] = train[number]["prompt"][0]["content"] = question
    train[4]["extra_info"].update(id=None, gold_passage_ids=["test-1"])
    run(splits)
    leaks = [one for one in found(tmp_path) if one["expectation"] == "leakage-exact"]
    assert [one["row"] for one in leaks] == [number for number in range(0, 40, 2) if number != 4]
    assert leaks[1] == {
        "table": "train",
        "expectation": "leakage-exact",
        "row": 2,
        "id": "train-2",
        "what": "'in TEST who has  number 1 of test' is row 1 of test, 'In test, who has number 1 of test?'",
    }
    (near,) = [one for one in found(tmp_path) if one["expectation"] == "leakage-near"]
    assert (near["row"], near["id"]) == (4, None)
    assert near["what"].startswith("'in TEST who has <b> number 1 of test' is near to row 1 of test, ")


def test_each_kind_of_expectation_tells_its_rows(run, splits, tmp_path):
    train, test = splits["train"], splits["test"]
    for number in (4, 6):
        train[number]["extra_info"]["gold_passage_ids"] = ["train-4", "test-2"]
    train[11]["prompt"][0]["content"] += " word" * 22
    for of in (test[0]["extra_info"], test[0]["reward_model"]["ground_truth"]):
        of.update({key: ["a, b, c"] for key in of.keys() & {"golden_answers", "target"}})
    run(splits)
    assert [(one["table"], one["expectation"], one["row"], one["what"]) for one in found(tmp_path)] == [
        ("train", "prompt-tokens", 11, "31, not 1 to 30"),
        ("train", "leakage-passages", 4, "gold passage 'test-2' is also that of row 2 of test"),
        ("train", "leakage-passages", 6, "gold passage 'test-2' is also that of row 2 of test"),
        ("test", "answers-joined", 0, "the only answer reads as several"),
        ("test", "answers-in-gold", 0, "no golden answer occurs in a gold passage"),
    ]


@pytest.mark.parametrize("block", [True, False])
def test_what_a_whole_table_misses_has_no_rows(run, splits, schema, tmp_path, block):
    if block:
        run({"train": sorted(splits["train"], key=lambda row: row["data_source"])[:9]})
    else:
        run(splits, schema=schema.remove(schema.get_field_index("agent_name")))
    assert found(tmp_path) == []
