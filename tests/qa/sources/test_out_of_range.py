"""Values and paths that a file or a parameter can hold and Python or the system can't."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InputError


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
        ("row 2", "not_utf8", "golden_answers: not UTF-8: invalid start byte at byte 2"),
        ("row 3", "not_utf8", "question: not UTF-8: invalid start byte at byte 1"),
    ]


def test_a_value_of_parquet_that_python_does_not_hold_is_named(tmp_path, read):
    columns = {"id": pa.array([2**30], pa.date32()), "question": ["Who?"], "golden_answers": ["Karo"]}
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")
    fault = read("parquet", "q.parquet").fault
    assert (fault.reason, fault.message[:4]) == ("wrong_type", "id: ")


def test_hops_in_a_cell(tmp_path, read):
    cells = ["9" * 5000, "1001", "1000", "-1"]
    (tmp_path / "q.csv").write_text("id,question,golden_answers,hops\n" + "".join(f"a,b,c,{one}\n" for one in cells))
    found = read("csv", "q.csv")
    assert [question.hops for question in found.questions] == [1000]
    assert [(fault.reason, fault.message[:43]) for fault in found.faults] == [
        ("wrong_type", "hops: must be a whole number of hops, got '"),
        ("wrong_hops", "hops: must be 1 to 1,000, got 1001"),
        ("wrong_type", "hops: must be a whole number of hops, got '"),
    ]


@pytest.mark.parametrize("reader", ["jsonl", "parquet", "csv", "hotpotqa"])
@pytest.mark.parametrize("path", ["a" * 5000, "a" * 5000 + "/q", "q\0"])
def test_a_path_that_no_file_can_have(read, reader, path):
    ending = {"hotpotqa": "json"}.get(reader, reader)
    with pytest.raises(InputError, match=r"can't be read: File name too long|no such file"):
        read(reader, f"{path}.{ending}")
