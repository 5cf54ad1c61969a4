"""Files and rows as they go wrong: each is refused, or a row of it is named, and nothing is lost without a word."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InputError

ROW = {"id": "a", "question": "Who?", "golden_answers": ["Karo"]}
LINE = json.dumps(ROW).encode() + b"\n"
HOTPOT = {"_id": "h", "question": "Who?", "answer": "Karo", "supporting_facts": [], "context": []}
SQUAD = json.dumps({"version": "1.1", "data": [{"title": "a", "paragraphs": []}]}).encode()
CSV = b"id,question,golden_answers\n"


def line(**change):
    return json.dumps({**ROW, **change}).encode() + b"\n"


def parquet(*rows, **columns):
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(list(rows)) if rows else pa.table(columns)
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def pickled_arrays():
    """What pandas writes of a column of numpy arrays with numbers in them."""
    frame = pd.DataFrame({"id": ["a"], "question": ["Who?"], "golden_answers": [np.array([1960.0, np.nan])]})
    return frame.to_parquet()


def parquet_twice():
    sink = pa.BufferOutputStream()
    columns = [pa.array(["a"])] * 4
    pq.write_table(pa.Table.from_arrays(columns, ["id", "question", "golden_answers", "question"]), sink)
    return sink.getvalue().to_pybytes()


def shortened(content, by):
    return content[:-by]


FILES = {
    "truncated gzip": ("jsonl", "q.jsonl.gz", shortened(gzip.compress(LINE * 500), 12), "damaged gzip file"),
    "damaged gzip": ("jsonl", "q.jsonl.gz", gzip.compress(LINE)[:10] + b"\xff" * 30, "damaged gzip file"),
    "not gzip, but called so": ("jsonl", "q.jsonl.gz", LINE, "named .gz and isn't gzip; drop .gz from its name"),
    "gzip, but not called so": ("jsonl", "q.jsonl", gzip.compress(LINE), "is gzip; add .gz to its name"),
    "empty file": ("jsonl", "q.jsonl", b"", "the file is empty"),
    "blank lines only": ("jsonl", "q.jsonl", b"\n \n", "the file holds no rows"),
    "empty gzip": ("jsonl", "q.jsonl.gz", gzip.compress(b""), "the file holds no rows"),
    "UTF-16": ("jsonl", "q.jsonl", LINE.decode().encode("utf-16"), r"is UTF-16, not UTF-8; .*iconv"),
    "UTF-16 without a mark": ("jsonl", "q.jsonl", LINE.decode().encode("utf-16-le"), "is UTF-16, not UTF-8"),
    "pointer of Git LFS": (
        "jsonl",
        "q.jsonl",
        b"version https://git-lfs.github.com/spec/v1\noid",
        "run `git lfs pull`",
    ),
    "web page": ("jsonl", "q.jsonl", b"<!DOCTYPE html><html>Not found</html>", "is a web page, not data"),
    "zip archive": ("jsonl", "q.jsonl", b"PK\x03\x04....", "is a zip archive, not text; unpack it"),
    "parquet for JSON lines": ("jsonl", "q.jsonl", parquet(ROW), "is a parquet file, not text; .*the reader parquet"),
    "values for JSON lines": ("jsonl", "q.jsonl", CSV + b"a,b,c\n", "not JSON: begins neither with { nor with"),
    "array for JSON lines": (
        "jsonl",
        "q.json",
        json.dumps([HOTPOT]).encode(),
        "holds an array of JSON, not one object a line; the reader 'hotpotqa' takes such a file",
    ),
    "own array for JSON lines": ("jsonl", "q.json", json.dumps([ROW]).encode(), "; jsonl takes one object a line"),
    "object for an array": ("hotpotqa", "q.json", SQUAD, "holds one object of JSON, not .*; the reader squad takes"),
    "indented object": ("musique", "q.json", json.dumps(HOTPOT, indent=1).encode(), "holds one object of JSON"),
    "array that is cut off": ("hotpotqa", "q.json", json.dumps([HOTPOT] * 3).encode()[:-9], "from row 2 on: not JSON"),
    "NaN in an array": ("hotpotqa", "q.json", b'[{"answer": NaN}]', "from row 0 on: not JSON.*NaN and Infinity are no"),
    "bad UTF-8 in an array": ("hotpotqa", "q.json", b'[{"a": "\xff"}]', "from row 0 on: not JSON.*UTF8"),
    "text for parquet": ("parquet", "q.parquet", LINE, "not parquet, whatever its name says"),
    "parquet that is cut off": ("parquet", "q.parquet", parquet(ROW)[:200], "damaged parquet"),
    "parquet with a hole": (
        "parquet",
        "q.parquet",
        (lambda whole: whole[:20] + b"\0" * 60 + whole[80:])(parquet(*[ROW] * 50)),
        "damaged parquet",
    ),
    "parquet for values": ("csv", "q.csv", parquet(ROW), "is a parquet file, not text"),
    "wrong delimiter": (
        "csv",
        "q.csv",
        b"id;question;golden_answers\na;b;c\n",
        r"q\.csv, line 1: one column, .*; set the source's key `delimiter: ';'`",
    ),
    "tabs in .csv": ("csv", "q.csv", b"id\tquestion\nx\ty\n", r"set the source's key `delimiter: '\\t'`"),
    "missing column": (
        "csv",
        "q.csv",
        b"id,question,answer\na,b,c\n",
        r"no column 'golden_answers'; there are id, question, answer; or say .*: columns: {golden_answers: ...}",
    ),
    "missing column of parquet": (
        "parquet",
        "q.parquet",
        parquet({"question": "a", "answer": "b"}),
        r"no column 'id'; .*columns: {id: null where there is none}",
    ),
    "columns of another reader": (
        "parquet",
        "q.parquet",
        parquet(
            {"data_source": "nq", "prompt": [{"role": "user", "content": "a"}], "reward_model": {"ground_truth": "b"}}
        ),
        "no column 'id'; the reader 'verl' takes such rows",
    ),
    "a column of parquet twice": (
        "parquet",
        "q.parquet",
        parquet_twice(),
        r"q\.parquet: two columns are called 'question'; give every column a name of its own",
    ),
    "a column whose name is no UTF-8": (
        "parquet",
        "q.parquet",
        parquet({**ROW, "zzzz": "x"}).replace(b"zzzz", b"zz\xffz"),
        "damaged parquet",
    ),
    "a key twice in an array": (
        "hotpotqa",
        "q.json",
        b'[{"question": "a"}, {"question": "a", "question": "b"}]',
        r"q\.json, from row 1 on: key 'question' comes twice in one object",
    ),
    "an array nested too deeply": (
        "hotpotqa",
        "q.json",
        b'[{"question": "a"}, ' + b"[" * 10_000 + b"]" * 10_001,
        r"q\.json, from row 1 on: nested more than 100 deep",
    ),
    "a column twice": ("csv", "q.csv", b"id,question,question\na,b,c\n", "two columns are called 'question'"),
    "no names of columns": ("csv", "q.csv", b"\na,b,c\n", "line 1: the first line names no columns"),
    "a quote that is never closed": ("csv", "q.csv", CSV + b'a,"b,c\nd,e,f\n', "line 2: not separated values"),
    "values whose lines end with CR": ("csv", "q.csv", CSV.replace(b"\n", b"\r") + b"a,b,c\r", "end with CR alone"),
    "rows whose lines end with CR": ("jsonl", "q.jsonl", LINE.replace(b"\n", b"\r") * 2, r"`tr '\\r' '\\n'`"),
    "bad UTF-8 in values": (
        "csv",
        "q.csv",
        CSV + b"a,b,c\nd,\xff,f\n",
        r"q\.csv, line 3: not UTF-8: invalid start byte at byte 3 of the line",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_wrong_as_a_whole_is_refused_by_name(tmp_path, read, case):
    reader, name, content, message = FILES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        read(reader, name)
    assert str(tmp_path / name) in refused.value.where
    assert "\n" not in str(refused.value)


ROWS = {
    "not JSON": ("jsonl", b"{oops\n", "not_json", "not JSON: .* at column 2"),
    "two objects on a line": ("jsonl", LINE.strip() + LINE, "not_json", "not JSON: Extra data"),
    "cut off": ("jsonl", LINE[:30] + b"\n", "not_json", "not JSON: .* at column 31"),
    "nested too deeply": ("jsonl", b'{"a":' + b"[" * 100_000 + b"\n", "not_json", "nested too deeply"),
    "number of 5,000 digits": ("jsonl", b'{"id": ' + b"9" * 5000 + b"}\n", "not_json", "not JSON that can be read"),
    "bad UTF-8": ("jsonl", line(question="?").replace(b"?", b"\xff"), "not_utf8", "invalid start byte at byte 26"),
    "half of a surrogate pair": ("jsonl", line(question="a \udc9f"), "not_utf8", "question: half of .* at character 3"),
    "a key twice": (
        "jsonl",
        line()[:-2] + b', "question": "b"}\n',
        "key_twice",
        "key 'question' comes twice in one object",
    ),
    "not an object": ("jsonl", b"[1]\n", "not_an_object", "must be an object with keys, got a list"),
    "missing key": (
        "jsonl",
        b'{"id": 1, "question": "a"}\n',
        "missing_key",
        "key 'golden_answers' is missing; there are",
    ),
    "another schema": (
        "jsonl",
        json.dumps(HOTPOT).encode() + b"\n",
        "missing_key",
        "key 'id' is missing; .*columns: {id",
    ),
    "no answers": ("jsonl", line(golden_answers=[]), "no_answer", "golden_answers: a question without an answer"),
    "null for answers": ("jsonl", line(golden_answers=None), "no_answer", "golden_answers: is null"),
    "NaN for answers": ("jsonl", line(golden_answers=float("nan")), "no_answer", "golden_answers: is NaN"),
    "NaN among answers": ("jsonl", line(golden_answers=["x", float("nan")]), "no_answer", "golden_answers.1: is NaN"),
    "an empty answer": ("jsonl", line(golden_answers=["x", " "]), "no_answer", "golden_answers.1: is empty"),
    "a number as an answer": (
        "jsonl",
        line(golden_answers=[1960]),
        "wrong_type",
        'golden_answers: must be a text, got the number 1960; write it as a text: "1960"',
    ),
    "true as an answer": ("jsonl", line(golden_answers=[True]), "wrong_type", "must be a text, got true or false"),
    "a list in the list": ("jsonl", line(golden_answers=[["a"]]), "wrong_type", "must be a text, got a list"),
    "a text for answers": ("jsonl", line(golden_answers="a, b"), "wrong_type", "must be a list of texts, got a text"),
    "an answer nobody can give": ("jsonl", line(golden_answers=["The ?"]), "unmatchable_answer", "nothing is left of"),
    "a question of marks": ("jsonl", line(question="???_"), "empty_question", r"question: no letter or digit in '\?"),
    "NUL in a question": (
        "jsonl",
        line(question="Who\0?"),
        "control_character",
        r"question: the control character U\+0000 at character 4; take it out",
    ),
    "escape in an answer": ("jsonl", line(golden_answers=["\x1b[1mKaro"]), "control_character", r"U\+001B at .* 1;"),
    "bell in an id": ("jsonl", line(id="\x07"), "control_character", r"id: the control character U\+0007"),
    "None for a missing answer": ("csv", b"a,b,None\n", "no_answer", r"'None' stands for .* a list: \[\"None\"\]"),
    "nan in a list": ("jsonl", line(golden_answers=["a", "nan"]), "no_answer", "golden_answers.1: 'nan' stands for"),
    "null as a text": ("jsonl", line(golden_answers=["null"]), "no_answer", "golden_answers: 'null' stands for"),
    "a list as a text": (
        "jsonl",
        line(golden_answers=["['Paris', nan]"]),
        "list_as_text",
        "golden_answers: a list that was made a text, .*; write the list itself",
    ),
    "an array as a cell": ("csv", b"a,b,\"array(['a b'], dtype=object)\"\n", "list_as_text", "a list that was made"),
    "nulls in a list in a cell": ("csv", b"a,b,[None]\n", "no_answer", "golden_answers: is null"),
    "numbers in a list in a cell": ("csv", b'a,b,"[1, 2]"\n', "wrong_type", "golden_answers.0: .* got the number 1"),
    "empty question": ("jsonl", line(question=" \t"), "empty_question", "question: is empty"),
    "null question": ("jsonl", line(question=None), "empty_question", "question: is null"),
    "a question of 1 MB": ("jsonl", line(question="a" * 2**20), "too_long", "question: 1,048,576 characters"),
    "empty id": ("jsonl", line(id=""), "empty_text", "id: is empty"),
    "true as an id": ("jsonl", line(id=True), "wrong_type", "id: must be a text, got true or false"),
    "hops of 0": ("jsonl", line(hops=0), "wrong_hops", "hops: must be 1 to 1,000, got 0"),
    "hops of 10**30": ("jsonl", line(hops=10**30), "wrong_hops", "hops: must be 1 to 1,000, got 1000"),
    "hops of 1.5": ("jsonl", line(hops=1.5), "wrong_type", "hops: must be a whole number"),
    "null among titles": ("jsonl", line(supporting_titles=[None]), "empty_text", "supporting_titles.0: is null"),
    "text for gold passages": ("jsonl", line(gold_passage_ids="7"), "wrong_type", "gold_passage_ids: must be a list"),
    "too few values": ("csv", b"a,b\n", "wrong_columns", "2 columns, and the first line names 3"),
    "too many values": ("csv", b"a,b,c,d\n", "wrong_columns", "4 columns, and the first line names 3"),
    "NaN of a data frame": ("csv", b"a,b,nan\n", "no_answer", "golden_answers: 'nan' stands for a missing value"),
    "empty cell": ("csv", b"a,b,\n", "no_answer", "golden_answers: is empty"),
    "list that is none": ("csv", b"a,b,[c d]\n", "wrong_type", "golden_answers: a text that is neither JSON nor"),
    "array of numpy": ("csv", b"a,b,\"['c' 'd']\"\n", "wrong_type", "golden_answers: texts without commas between"),
    "hexadecimal of 5,000 digits": ("csv", b"a,b,[0x" + b"f" * 5000 + b"]\n", "wrong_type", "neither JSON nor"),
    "1 MB in a cell": ("csv", b"a," + b"b" * 2**20 + b",c\n", "too_long", "question: 1,048,576 characters"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_wrong_row_is_named_and_the_others_are_read(tmp_path, read, case):
    reader, row, reason, message = ROWS[case]
    before, after = (LINE, LINE) if reader == "jsonl" else (CSV + b"x,y,z\n", b"x,y,z\n")
    (tmp_path / f"q.{reader}").write_bytes(before + row + after)
    found = read(reader, f"q.{reader}")
    (fault,) = found.faults
    number = 2 if reader == "jsonl" else 3
    assert (fault.origin, fault.reason) == (f"{tmp_path}/q.{reader}, line {number}", reason)
    assert re.search(message, fault.message)
    assert len(found.questions) == 2


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (parquet({**ROW, "golden_answers": None}, ROW), "no_answer", "golden_answers: is null"),
        (parquet({**ROW, "golden_answers": [None, "a"]}, ROW), "no_answer", "golden_answers.0: is null"),
        (parquet({**ROW, "question": None}, ROW), "empty_question", "question: is null"),
        (
            parquet({**ROW, "golden_answers": 1960}),
            "wrong_type",
            "must be a text or a list of texts, got the number 1960",
        ),
        (
            parquet({**ROW, "golden_answers": {"text": ["a"]}}),
            "wrong_type",
            "must be a text or a list .* got an object",
        ),
        (parquet({**ROW, "question": b"Who?"}), "wrong_type", "question: must be a text, got bytes"),
        (parquet({**ROW, "golden_answers": "[1, 2]"}), "list_as_text", "golden_answers: a list that was made a text"),
        (parquet({**ROW, "golden_answers": "None"}), "no_answer", "golden_answers: 'None' stands for a missing value"),
        (parquet({**ROW, "id": 1.0}), "wrong_type", "id: must be a text, got the number 1.0"),
        (pickled_arrays(), "wrong_type", "golden_answers.0: must be a text, got the number 1960.0"),
    ],
)
def test_a_wrong_row_of_parquet_is_named(tmp_path, read, content, reason, message):
    (tmp_path / "q.parquet").write_bytes(content)
    (fault,) = read("parquet", "q.parquet").faults
    assert (fault.origin, fault.reason) == (f"{tmp_path}/q.parquet, row 0", reason)
    assert re.search(message, fault.message)


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + LINE, LINE.replace(b"\n", b"\r\n"), LINE.strip(), b"\n\n" + LINE]
)
def test_marks_line_ends_and_blank_lines_do_no_harm(tmp_path, read, content):
    (tmp_path / "q.jsonl").write_bytes(content)
    assert read("jsonl", "q.jsonl").question.golden_answers == ("Karo",)
    table = b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n") + b"a,Who?,Karo\r\n\r\n"
    (tmp_path / "q.csv").write_bytes(table)
    assert read("csv", "q.csv").question.question == "Who?"
    (tmp_path / "q.json").write_bytes(b"\xef\xbb\xbf" + SQUAD.replace(b"[]", b"[ ]\r\n"))
    assert read("squad", "q.json").items == []
