import gzip
import json

import pytest

from tasks.errors import InputError


def test_gsm8k_keeps_the_number_and_leaves_the_solution_out(tmp_path, read):
    rows = [
        {"question": "How many?", "answer": "A #### is a mark. 2*600=<<2*600=1200>>1200\n#### 1,200"},
        {"question": "How much?", "answer": "No mark: 7"},
        {"question": "How far?", "answer": "Nothing behind it ####"},
    ]
    with gzip.open(tmp_path / "q.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    found = read("gsm8k", "q.jsonl.gz")
    assert (found.question.question, found.question.golden_answers) == ("How many?", ("1200",))
    assert [(fault.reason, fault.message) for fault in found.faults] == [
        ("no_answer", "answer: holds no #### before a final answer"),
        ("no_answer", "answer, behind ####: is empty"),
    ]


def test_an_ending_that_a_reader_does_not_take_is_refused(tmp_path, read):
    (tmp_path / "q.csv").write_text("question,answer\n")
    with pytest.raises(InputError, match=r"ends with '\.csv'; the reader gsm8k takes \.json, \.jsonl, \.parquet"):
        read("gsm8k", "q.csv")
