"""Values that a file can hold and Python can't, or holds otherwise."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def no_utf8(*texts):
    """Bytes as a column of texts, unchecked."""
    return pa.Array.from_buffers(pa.string(), len(texts), pa.array(texts, pa.binary()).buffers())


def test_rows_of_parquet_that_are_no_utf8_are_named_and_the_others_are_read(tmp_path, read):
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), no_utf8(b"Karo", b"x", b"y\xff", b"z"))
    columns = {"id": pa.array(["a", "b", "c"]), "question": no_utf8(b"Who?", b"Where?", b"\xffWhen?")}
    pq.write_table(pa.table({**columns, "golden_answers": lists}), tmp_path / "q.parquet")
    found = read("parquet", "q.parquet")
    assert found.question.golden_answers == ("Karo",)
    assert [(fault.origin[-5:], fault.reason, fault.message) for fault in found.faults] == [
        ("row 1", "not_utf8", "golden_answers: not UTF-8: invalid start byte at byte 2"),
        ("row 2", "not_utf8", "question: not UTF-8: invalid start byte at byte 1"),
    ]


def test_a_value_of_parquet_that_python_does_not_hold_is_named(tmp_path, read):
    columns = {"id": pa.array([2**30], pa.date32()), "question": ["Who?"], "golden_answers": ["Karo"]}
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")
    fault = read("parquet", "q.parquet").fault
    assert (fault.reason, fault.message[:4]) == ("wrong_type", "id: ")


@pytest.mark.parametrize("reader", ["jsonl", "csv", "parquet", "verl"])
def test_hops_as_pandas_writes_them_where_one_is_missing(tmp_path, read, reader):
    frame = pd.DataFrame({"id": ["a", "b"], "question": "Who?", "golden_answers": "Karo", "hops": [2, None]})
    if reader == "jsonl":
        # Not to_json, which writes null.
        (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    elif reader == "csv":
        frame.to_csv(tmp_path / "q.csv", index=False)
    elif reader == "parquet":
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "q.parquet")
    else:
        extra = [{"hops": hops} for hops in frame.pop("hops")]
        prompt, truth = [{"role": "user", "content": "Who?"}], {"ground_truth": "Karo"}
        whole = {"data_source": "nq", "prompt": [prompt] * 2, "reward_model": [truth] * 2, "extra_info": extra}
        frame.assign(**whole).to_parquet(tmp_path / "q.parquet")
    name = "q.parquet" if reader == "verl" else f"q.{reader}"
    found = read(reader, name, **({"columns": {"golden_answers": "golden_answers"}} if reader == "jsonl" else {}))
    assert [(question.hops, type(question.hops)) for question in found.questions] == [(2, int), (1, int)]


def test_hops_in_a_cell(tmp_path, read):
    cells = ["9" * 5000, "1001", "1000", "-1", "3.0", "3.5", "٣"]
    (tmp_path / "q.csv").write_text("id,question,golden_answers,hops\n" + "".join(f"a,b,c,{one}\n" for one in cells))
    found = read("csv", "q.csv")
    assert [question.hops for question in found.questions] == [1000, 3]
    assert [(fault.reason, fault.message[:43]) for fault in found.faults] == [
        ("wrong_type", "hops: must be a whole number of hops, got '"),
        ("wrong_hops", "hops: must be 1 to 1,000, got 1001"),
        ("wrong_type", "hops: must be a whole number of hops, got '"),
        ("wrong_type", "hops: must be a whole number of hops, got '"),
        ("wrong_type", "hops: must be a whole number of hops, got '"),
    ]
